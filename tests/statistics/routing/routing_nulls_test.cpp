// Nulls of routing beside draws: closed forms, exact draws of loads, and the three ways to the law
// of the largest lift.
#include "routing_calibration.hpp"
#include "routing_draws.hpp"

#include "statistics/routing/lift_maxima.hpp"
#include "statistics/routing/routing_statistics.hpp"
#include "statistics/routing/token_router.hpp"
#include "statistics/routing/uniform_choice.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/random_draws.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::statistics::routing_nulls_test {
namespace {

using testing::law_of;
using testing::Summary;
using testing::summary;

/// Mean and deviation over `draws` of what uniform routing of drawn logits gives.
struct Drawn {
  double cv = 0.0, entropy = 0.0, gini = 0.0, max_over_mean = 0.0, dead = 0.0, load_deviation = 0.0;
  double lift = 0.0, lift_deviation = 0.0, same = 0.0, same_deviation = 0.0;
};

Drawn draw_statistics(const RouterRule& rule, std::int64_t experts, std::int64_t tokens,
                      int draws) {
  Drawn out;
  std::vector<double> lifts;
  std::vector<double> sames;
  double squares = 0.0;
  const std::int64_t members = experts / rule.groups;
  for (int draw = 0; draw < draws; ++draw) {
    DrawStream numbers(99, static_cast<std::uint64_t>(draw));
    TokenRouter router(rule, experts);
    RoutingTally tally(experts, tokens);
    RoutedToken token;
    std::vector<float> logits(static_cast<std::size_t>(experts));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (float& logit : logits) {
        logit = static_cast<float>(numbers.normal());
      }
      router.route(logits, token);
      tally.add(token);
    }
    const RoutingStatistics s = tally.statistics();
    out.cv += s.loads.cv / draws;
    out.entropy += s.loads.entropy / draws;
    out.gini += s.loads.gini / draws;
    out.max_over_mean += s.loads.max_over_mean / draws;
    out.dead += static_cast<double>(s.loads.dead_experts) / draws;
    squares += (s.load[0] - 1.0 / static_cast<double>(experts)) *
               (s.load[0] - 1.0 / static_cast<double>(experts)) / draws;
    if (!std::isnan(s.coactivation_lift[static_cast<std::size_t>(experts) - 1])) {
      lifts.push_back(s.coactivation_lift[static_cast<std::size_t>(experts) - 1]);
    }
    if (members > 1 && !std::isnan(s.coactivation_lift[1])) {
      sames.push_back(s.coactivation_lift[1]);
    }
  }
  out.load_deviation = std::sqrt(squares);
  const auto summary = [](const std::vector<double>& values, double& mean, double& deviation) {
    mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
    double sum = 0.0;
    for (const double value : values) {
      sum += (value - mean) * (value - mean);
    }
    deviation = std::sqrt(sum / static_cast<double>(values.size()));
  };
  summary(lifts, out.lift, out.lift_deviation);
  summary(sames, out.same, out.same_deviation);
  return out;
}

TEST(RoutingNulls, AgreeWithAThousandDraws) {
  const RouterRule rule{.top_k = 2};
  const Drawn drawn = draw_statistics(rule, 8, 400, 1000);
  const UniformRoutingNulls nulls = uniform_routing_nulls(law_of(rule, 8), 400);
  EXPECT_NEAR(nulls.cv.mean, drawn.cv, 0.06 * drawn.cv);
  EXPECT_NEAR(nulls.cv.mean, std::sqrt(0.75 / 100.0) * 0.965, 0.05 * drawn.cv);
  EXPECT_NEAR(1.0 - nulls.entropy.mean, 1.0 - drawn.entropy, 0.1 * (1.0 - drawn.entropy));
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.06 * drawn.gini);
  EXPECT_NEAR(nulls.max_over_mean.mean - 1.0, drawn.max_over_mean - 1.0, 0.01);
  EXPECT_NEAR(nulls.load_deviation, drawn.load_deviation, 0.08 * drawn.load_deviation);
  EXPECT_NEAR(nulls.coactivation, drawn.lift, 0.03);
  EXPECT_NEAR(nulls.coactivation, 8.0 / (2.0 * 7.0), 1e-15);
  EXPECT_NEAR(nulls.coactivation_deviation, drawn.lift_deviation, 0.08 * drawn.lift_deviation);
  EXPECT_NEAR(nulls.dead_experts.mean, 0.0, 1e-12);
  EXPECT_TRUE(std::isnan(nulls.same_group));
}

TEST(RoutingNulls, OfFewTokensCountTheDead) {
  const RouterRule rule{.top_k = 1};
  const Drawn drawn = draw_statistics(rule, 16, 20, 1000);
  const UniformRoutingNulls nulls = uniform_routing_nulls(law_of(rule, 16), 20);
  EXPECT_NEAR(nulls.dead_experts.mean, 16.0 * std::pow(15.0 / 16.0, 20.0), 1e-12);
  EXPECT_NEAR(nulls.dead_experts.mean, drawn.dead, 0.15);
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.02);
  EXPECT_EQ(nulls.coactivation, 0.0);  // one expert a token: never two together
}

TEST(RoutingNulls, KnowGroups) {
  const RouterRule rule{
      .scoring = RouterScoring::kSigmoid, .top_k = 2, .groups = 4, .chosen_groups = 2};
  const Drawn drawn = draw_statistics(rule, 12, 300, 1000);
  const UniformRoutingNulls nulls = uniform_routing_nulls(law_of(rule, 12), 300);
  EXPECT_NEAR(nulls.coactivation, drawn.lift, 0.03);
  EXPECT_NEAR(nulls.same_group, drawn.same, 0.06);
  EXPECT_GT(nulls.same_group, 1.2 * nulls.coactivation);
  EXPECT_NEAR(nulls.same_group_deviation, drawn.same_deviation, 0.1 * drawn.same_deviation);
  EXPECT_NEAR(nulls.cv.mean, drawn.cv, 0.06 * drawn.cv);
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.06 * drawn.gini);
}

TEST(RoutingNulls, TransitionsOfIndependentLayers) {
  const RouterRule first{.top_k = 2};
  const RouterRule second{.top_k = 1};
  std::vector<double> lifts;
  for (int draw = 0; draw < 1000; ++draw) {
    DrawStream numbers(5, static_cast<std::uint64_t>(draw));
    TokenRouter from(first, 6);
    TokenRouter to(second, 4);
    TransitionTally tally(6, 4);
    RoutedToken a;
    RoutedToken b;
    std::vector<float> six(6);
    std::vector<float> four(4);
    for (int t = 0; t < 300; ++t) {
      for (float& logit : six) {
        logit = static_cast<float>(numbers.normal());
      }
      for (float& logit : four) {
        logit = static_cast<float>(numbers.normal());
      }
      from.route(six, a);
      to.route(four, b);
      tally.add(a, b);
    }
    lifts.push_back(tally.lift()[5]);
  }
  const double mean = std::accumulate(lifts.begin(), lifts.end(), 0.0) / 1000.0;
  double squares = 0.0;
  for (const double lift : lifts) {
    squares += (lift - mean) * (lift - mean) / 1000.0;
  }
  EXPECT_NEAR(mean, 1.0, 0.02);
  EXPECT_NEAR(std::sqrt(squares), transition_deviation(300, 2.0 / 6.0, 1.0 / 4.0),
              0.08 * std::sqrt(squares));
}

/// Means and deviations of the largest lift by tokens drawn here.
Summary drawn_maximum(const ChoiceLaw& law, std::int64_t tokens, int draws) {
  TokenDraws choice(law);
  std::vector<double> values;
  const auto experts = static_cast<std::size_t>(law.experts);
  for (int draw = 0; draw < draws; ++draw) {
    DrawStream numbers(77, static_cast<std::uint64_t>(draw));
    std::vector<double> pairs(experts * experts, 0.0);
    std::vector<double> counts(experts, 0.0);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto chosen = choice.next(numbers);
      for (const std::uint32_t e : chosen) {
        counts[e] += 1.0;
        for (const std::uint32_t f : chosen) {
          pairs[e * experts + f] += e == f ? 0.0 : 1.0;
        }
      }
    }
    double largest = 0.0;
    for (std::size_t e = 0; e < experts; ++e) {
      for (std::size_t f = 0; f < experts; ++f) {
        largest = std::max(largest, pairs[e * experts + f] * static_cast<double>(tokens) /
                                        (counts[e] * counts[f]));
      }
    }
    values.push_back(largest);
  }
  return summary(values);
}

// Tokens that are not drawn: the law of independent pairs among many, scaled draws among few.
TEST(LargestLifts, OfManyTokensAreThoseOfDraws) {
  const RouterRule groups{
      .scoring = RouterScoring::kSigmoid, .top_k = 4, .groups = 4, .chosen_groups = 2};
  struct Case {
    ChoiceLaw law;
    std::int64_t tokens;
    int draws;
  };
  for (const Case& one :
       {Case{law_of({.top_k = 8}, 64), 1000, 250}, Case{law_of({.top_k = 8}, 64), 4000, 100},
        Case{law_of({.top_k = 8}, 16), 12000, 100}, Case{law_of(groups, 16), 32000, 80}}) {
    const MaximumNull null = coactivation_maximum(one.law, one.tokens);
    const Summary drawn = drawn_maximum(one.law, one.tokens, one.draws);
    const double slack = 3.5 / std::sqrt(static_cast<double>(one.draws));
    EXPECT_NEAR(null.null.mean, drawn.mean, slack * drawn.deviation) << one.tokens;
    EXPECT_NEAR(null.null.deviation / drawn.deviation, 1.0, slack) << one.tokens;
    EXPECT_NEAR(null.chance(quantile(null.values, 0.5)), 0.5, 0.01);
    EXPECT_NEAR(null.chance(10.0 * null.null.mean), 1.0 / 1001.0, 1e-12);
    EXPECT_EQ(null.chance(0.0), 1.0);
  }
}

TEST(LargestLifts, OfOddShapes) {
  // One expert a token: never two together. All experts: always. One expert: no pair.
  EXPECT_EQ(coactivation_maximum(law_of({.top_k = 1}, 8), 50).null.mean, 0.0);
  EXPECT_EQ(coactivation_maximum(law_of({.top_k = 4}, 4), 50).null.mean, 1.0);
  EXPECT_EQ(coactivation_maximum(law_of({.top_k = 4}, 4), 1'000'000).null.mean, 1.0);
  EXPECT_TRUE(std::isnan(coactivation_maximum(law_of({.top_k = 1}, 1), 50).null.mean));
  EXPECT_TRUE(std::isnan(coactivation_maximum(law_of({.top_k = 1}, 1), 50).chance(1.0)));
  // Fewer largest lifts as tokens grow, by their root.
  const ChoiceLaw law = law_of({.top_k = 2}, 256);
  const double some = coactivation_maximum(law, 10'000'000).null.mean;
  const double more = coactivation_maximum(law, 1'000'000'000).null.mean;
  const double mean = 256.0 / (2.0 * 255.0);
  EXPECT_NEAR((some - mean) / (more - mean), 10.0, 0.5);
}

TEST(NoiseRouters, OfNoAndOfSomeSpread) {
  const RouterRule rule{.top_k = 2};
  const NoiseRouter flat = noise_router(rule, 8, 0.3, 0.0, 1000);
  EXPECT_NEAR(flat.entropy.mean, std::log(8.0), 1e-12);
  EXPECT_EQ(flat.margin.mean, 0.0);
  EXPECT_EQ(flat.margin.deviation, 0.0);
  const NoiseRouter spread = noise_router(rule, 8, 0.3, 1.0, 1000);
  EXPECT_LT(spread.entropy.mean, flat.entropy.mean - 0.2);
  EXPECT_GT(spread.margin.mean, 0.01);
  // A softmax does not see a shift, a sigmoid does.
  EXPECT_EQ(noise_router(rule, 8, -9.0, 1.0, 1000).entropy.mean, spread.entropy.mean);
  const RouterRule sigmoid{.scoring = RouterScoring::kSigmoid, .top_k = 2};
  EXPECT_GT(noise_router(sigmoid, 8, 3.0, 1.0, 1000).entropy.mean,
            noise_router(sigmoid, 8, -3.0, 1.0, 1000).entropy.mean + 0.1);
  // More tokens, less noise, down to that of the drawn ones.
  EXPECT_LT(noise_router(rule, 8, 0.0, 1.0, 100'000).entropy.deviation,
            0.5 * spread.entropy.deviation);
  const NoiseRouter unknown = noise_router(rule, 8, 0.0, std::nan(""), 1000);
  EXPECT_TRUE(std::isnan(unknown.entropy.mean));
  EXPECT_EQ(unknown.choice, spread.choice);  // without groups it does not depend on logits
  EXPECT_TRUE(std::isnan(noise_router({.top_k = 8}, 8, 0.0, 1.0, 100).margin.mean));
  EXPECT_THROW(noise_router({.top_k = 9}, 8, 0.0, 1.0, 100), ConfigurationError);
}

// One token leaves loads no choice, and rounding is no deviation.
TEST(RoutingNulls, OfOneTokenDoNotVary) {
  const UniformRoutingNulls nulls = uniform_routing_nulls(law_of({.top_k = 2}, 8), 1);
  EXPECT_NEAR(nulls.cv.mean, std::sqrt(3.0), 1e-12);
  EXPECT_EQ(nulls.cv.deviation, 0.0);
  EXPECT_EQ(nulls.dead_experts.deviation, 0.0);
}

TEST(RoutingNulls, AreUnknownWhereTheChoiceIs) {
  const RouterRule groups{
      .scoring = RouterScoring::kSigmoid, .top_k = 2, .groups = 4, .chosen_groups = 2};
  const ChoiceLaw law = noise_router(groups, 8, 0.0, std::nan(""), 100).choice;
  EXPECT_TRUE(law.patterns.empty());
  const UniformRoutingNulls nulls = uniform_routing_nulls(law, 100);
  EXPECT_TRUE(std::isnan(nulls.cv.mean));
  EXPECT_TRUE(std::isnan(nulls.coactivation));
  EXPECT_TRUE(transition_maximum(law, law, 100).values.empty());
}

// Routers that prefer no expert, each number beside its null: docs/commands/routing.md has the
// table of many more. Slack is four standard errors, and the nulls' own.
TEST(RoutingNulls, FitRoutersWithoutPreference) {
  const std::vector<testing::RoutingCase> cases = testing::documented_cases();
  for (const auto& [number, layers] : {std::pair(0U, 100), {2U, 100}, {7U, 60}}) {
    const double error = 1.0 / std::sqrt(static_cast<double>(layers));
    for (const testing::CalibratedStatistic& one : testing::calibrate(cases[number], layers)) {
      const std::string name = cases[number].name + ": " + one.name;
      if (one.name.ends_with(" p")) {
        EXPECT_LE(one.beyond, 0.0027 + 4.0 * std::sqrt(0.0027 / one.count)) << name;
        EXPECT_LE(one.at_05, 0.05 + 4.0 * std::sqrt(0.0475 / one.count)) << name;
        continue;
      }
      EXPECT_NEAR(one.z_mean, 0.0, 4.0 * error + 0.05) << name;
      EXPECT_NEAR(one.z_sd, 1.0, 4.0 * error * std::sqrt(0.5) + 0.05) << name;
      // The largest of many are skewed to the right.
      EXPECT_LE(one.beyond, one.count > 1000.0 ? 0.008 : 0.06) << name;
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::routing_nulls_test
