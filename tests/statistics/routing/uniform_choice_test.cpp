// Draws of counts and of choices beside their laws.
#include "statistics/routing/uniform_choice.hpp"

#include "routing_draws.hpp"

#include "statistics/routing/token_router.hpp"
#include "statistics/samples/random_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace vindex::statistics::uniform_choice_test {
namespace {

using testing::law_of;
using testing::Summary;
using testing::summary;

TEST(Counts, AreDrawnFromTheBinomialLaw) {
  // Inversion, rejection, and the rarer side of a likely trial.
  for (const auto& [trials, chance] :
       std::vector<std::pair<std::int64_t, double>>{{20, 0.2}, {60, 0.3}, {200, 0.9}, {3, 0.97}}) {
    constexpr int kDraws = 40000;
    DrawStream draws(11, static_cast<std::uint64_t>(trials));
    std::vector<double> seen(static_cast<std::size_t>(trials) + 1, 0.0);
    for (int i = 0; i < kDraws; ++i) {
      seen[static_cast<std::size_t>(draw_binomial(trials, chance, draws))] += 1.0;
    }
    double chi_square = 0.0;
    double cells = 0.0;
    const auto n = static_cast<double>(trials);
    for (std::size_t k = 0; k < seen.size(); ++k) {
      const auto count = static_cast<double>(k);
      const double expected =
          kDraws * std::exp(log_factorial(n) - log_factorial(count) - log_factorial(n - count) +
                            count * std::log(chance) + (n - count) * std::log1p(-chance));
      if (expected >= 5.0) {
        chi_square += (seen[k] - expected) * (seen[k] - expected) / expected;
        cells += 1.0;
      }
    }
    EXPECT_LT(chi_square, cells + 5.0 * std::sqrt(2.0 * cells)) << trials << " " << chance;
  }
  DrawStream draws(1);
  EXPECT_EQ(draw_binomial(7, 0.0, draws), 0);
  EXPECT_EQ(draw_binomial(7, 1.0, draws), 7);
  EXPECT_EQ(draw_binomial(0, 0.5, draws), 0);
  const auto many = static_cast<double>(draw_binomial(1'000'000'000'000, 0.25, draws));
  EXPECT_NEAR(many, 2.5e11, 6.0 * std::sqrt(1e12 * 0.25 * 0.75));
}

TEST(Counts, HavePoissonTails) {
  EXPECT_NEAR(poisson_tail(0.0, 1.0), std::exp(-1.0), 1e-15);
  // P(X < 3) and half of P(X = 3) are 8.5 e^-3 and 2.25 e^-3: more than a half.
  EXPECT_NEAR(poisson_tail(3.0, 3.0), 2.0 * (1.0 - 10.75 * std::exp(-3.0)), 1e-15);
  // scipy.stats: poisson.sf(5, 1) + poisson.pmf(5, 1) / 2
  EXPECT_NEAR(poisson_tail(5.0, 1.0), 2.0 * (0.0036598468273437 - std::exp(-1.0) / 240.0), 1e-15);
  // Keeps its digits: 4.6217e-49 above, of which P(X = 40) is 4.5088e-49.
  EXPECT_NEAR(poisson_tail(40.0, 1.0) / (2.0 * 2.3673e-49), 1.0, 1e-3);
  EXPECT_EQ(poisson_tail(5000.0, 1.0), 0.0);
  EXPECT_TRUE(std::isnan(poisson_tail(1.0, 0.0)));
  EXPECT_NEAR(log_factorial(0.0), 0.0, 1e-12);
  EXPECT_NEAR(log_factorial(20.0), std::log(2432902008176640000.0), 1e-12);
}

TEST(UniformChoice, LoadsAreThoseOfTokens) {
  const RouterRule groups{
      .scoring = RouterScoring::kSigmoid, .top_k = 3, .groups = 4, .chosen_groups = 2};
  for (const ChoiceLaw& law : {law_of({.top_k = 3}, 12), law_of(groups, 12)}) {
    constexpr int kDraws = 4000;
    constexpr std::int64_t kTokens = 40;
    LoadDraws loads(law);
    TokenDraws tokens(law);
    std::vector<std::vector<double>> split(4), counted(4);
    for (int draw = 0; draw < kDraws; ++draw) {
      DrawStream numbers(21, static_cast<std::uint64_t>(draw));
      std::vector<double> counts(12);
      loads.next(kTokens, numbers, counts);
      ASSERT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), 3.0 * kTokens);
      std::vector<double> other(12, 0.0);
      for (std::int64_t t = 0; t < kTokens; ++t) {
        for (const std::uint32_t expert : tokens.next(numbers)) {
          other[expert] += 1.0;
        }
      }
      // One expert, two of a group, two of different groups, and the largest.
      for (auto& [counts_of, into] : {std::pair(&counts, &split), std::pair(&other, &counted)}) {
        (*into)[0].push_back((*counts_of)[11]);
        (*into)[1].push_back((*counts_of)[0] + (*counts_of)[1]);
        (*into)[2].push_back((*counts_of)[2] + (*counts_of)[3]);
        (*into)[3].push_back(*std::max_element(counts_of->begin(), counts_of->end()));
      }
    }
    for (std::size_t i = 0; i < split.size(); ++i) {
      const Summary one = summary(split[i]);
      const Summary two = summary(counted[i]);
      EXPECT_NEAR(one.mean, two.mean, 5.0 * one.deviation / std::sqrt(0.5 * kDraws)) << i;
      EXPECT_NEAR(one.deviation, two.deviation, 0.06 * one.deviation) << i;
    }
  }
}

// How scores are spread decides how often one group gives several experts.
TEST(UniformChoice, FollowsTheSpreadOfLogits) {
  const RouterRule rule{.top_k = 8, .groups = 8, .chosen_groups = 4};
  const ChoiceLaw narrow = law_of(rule, 64, 0.2);
  const ChoiceLaw wide = law_of(rule, 64, 4.0);
  EXPECT_GT(wide.same_group() / narrow.same_group(), 1.015);
  for (const ChoiceLaw& law : {narrow, wide}) {
    // Chances of a token's 8 * 7 ordered pairs.
    EXPECT_NEAR(64.0 * (7.0 * law.same_group() + 56.0 * law.other()), 56.0, 1e-9);
    EXPECT_NEAR(law.share(), 0.125, 1e-15);
  }
  // Other tokens, routed here.
  TokenRouter router(rule, 64);
  RoutedToken token;
  double same = 0.0;
  constexpr int kTokens = 20000;
  DrawStream draws(3);
  std::vector<float> logits(64);
  for (int t = 0; t < kTokens; ++t) {
    std::generate(logits.begin(), logits.end(),
                  [&] { return static_cast<float>(4.0 * draws.normal()); });
    ASSERT_TRUE(router.route(logits, token));
    for (const std::int32_t e : token.experts) {
      for (const std::int32_t f : token.experts) {
        same += e != f && e / 8 == f / 8 ? 1.0 : 0.0;
      }
    }
  }
  EXPECT_NEAR(wide.same_group() * 64.0 * 7.0 / (same / kTokens), 1.0, 0.012);
}

}  // namespace
}  // namespace vindex::statistics::uniform_choice_test
