// Statistics of routed tokens by hand, by symmetry, and their nulls beside draws.
#include "statistics/routing/routing_statistics.hpp"

#include "statistics/routing/load_statistics.hpp"
#include "statistics/routing/token_router.hpp"
#include "statistics/samples/random_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::statistics::routing_statistics_test {
namespace {

RoutedToken token_of(std::vector<std::int32_t> experts, std::vector<double> weights,
                     double margin = 0.0, double entropy = 0.0) {
  return {std::move(experts), std::move(weights), margin, entropy};
}

TEST(RoutingStatistics, FourTokensByHand) {
  RoutingTally tally(3, 4);
  tally.add(token_of({0, 1}, {0.7, 0.3}, 0.1, 1.0));
  tally.add(token_of({0, 1}, {0.5, 0.5}, 0.2, 0.5));
  tally.add(token_of({1, 0}, {0.6, 0.4}, 0.4, 0.5));
  tally.add(token_of({0, 2}, {0.9, 0.1}, 0.8, 1.0));
  const RoutingStatistics s = tally.statistics();
  EXPECT_EQ(s.tokens, 4);
  EXPECT_EQ(s.load, (std::vector<double>{0.5, 0.375, 0.125}));
  EXPECT_NEAR(s.mean_weight[0], 2.5 / 4.0, 1e-15);
  EXPECT_NEAR(s.mean_weight[1], 1.4 / 3.0, 1e-15);
  EXPECT_NEAR(s.mean_weight[2], 0.1, 1e-15);
  EXPECT_NEAR(s.overall_weight, 0.5, 1e-15);
  EXPECT_NEAR(s.router_entropy, 0.75, 1e-15);
  EXPECT_NEAR(s.margin, 0.3, 1e-15);
  // counts 4 3 1: mean 8/3
  EXPECT_NEAR(s.loads.cv, std::sqrt((16.0 + 1.0 + 25.0) / 27.0) / (8.0 / 3.0), 1e-14);
  EXPECT_NEAR(s.loads.max_over_mean, 1.5, 1e-15);
  EXPECT_NEAR(s.loads.gini, (-2.0 * 1.0 + 0.0 * 3.0 + 2.0 * 4.0) / (3.0 * 8.0), 1e-15);
  EXPECT_EQ(s.loads.dead_experts, 0);
  // 0 and 1 together in 3 of 4 tokens; 0 is in all, 1 in 3.
  EXPECT_NEAR(s.coactivation_lift[0 * 3 + 1], 1.0, 1e-6);
  EXPECT_NEAR(s.coactivation_lift[2 * 3 + 0], 1.0, 1e-6);
  EXPECT_EQ(s.coactivation_lift[1 * 3 + 2], 0.0F);
  EXPECT_TRUE(std::isnan(s.coactivation_lift[0]));
}

TEST(RoutingStatistics, DeadExpertsHaveNoLift) {
  RoutingTally tally(3, 1);
  tally.add(token_of({0, 1}, {0.5, 0.5}));
  const RoutingStatistics s = tally.statistics();
  EXPECT_EQ(s.loads.dead_experts, 1);
  EXPECT_TRUE(std::isnan(s.mean_weight[2]));
  EXPECT_TRUE(std::isnan(s.coactivation_lift[0 * 3 + 2]));
  EXPECT_NEAR(s.loads.entropy, std::log(2.0) / std::log(3.0), 1e-15);
}

TEST(RoutingStatistics, NoTokenNoNumber) {
  const RoutingStatistics s = RoutingTally(2, 0).statistics();
  EXPECT_TRUE(std::isnan(s.load[0]));
  EXPECT_TRUE(std::isnan(s.loads.cv));
  EXPECT_TRUE(std::isnan(s.router_entropy));
}

TEST(RoutingStatistics, EvenLoads) {
  const LoadStatistics even = load_statistics(std::vector<double>{5.0, 5.0, 5.0, 5.0});
  EXPECT_EQ(even.cv, 0.0);
  EXPECT_NEAR(even.entropy, 1.0, 1e-15);
  EXPECT_NEAR(even.gini, 0.0, 1e-15);
  const LoadStatistics one = load_statistics(std::vector<double>{0.0, 0.0, 0.0, 8.0});
  EXPECT_NEAR(one.gini, 0.75, 1e-15);
  EXPECT_NEAR(one.entropy, 0.0, 1e-15);
  EXPECT_NEAR(one.cv, std::sqrt(3.0), 1e-15);
}

TEST(RoutingStatistics, EntropiesOfEqualNumbersStayInTheirRange) {
  for (std::size_t experts = 2; experts <= 400; ++experts) {
    for (const double load : {1.0, 5.0, 7.0, 33.0}) {
      const double entropy = load_statistics(std::vector<double>(experts, load)).entropy;
      EXPECT_LE(entropy, 1.0) << experts << " loads of " << load;
      EXPECT_NEAR(entropy, 1.0, 1e-13);
    }
    const double most = std::log(static_cast<double>(experts));
    for (const RouterScoring scoring : {RouterScoring::kSoftmax, RouterScoring::kSigmoid}) {
      TokenRouter router({.scoring = scoring, .top_k = 1}, static_cast<std::int64_t>(experts), {});
      RoutingTally tally(static_cast<std::int64_t>(experts), 7);
      RoutedToken token;
      for (int i = 0; i < 7; ++i) {
        ASSERT_TRUE(router.route(std::vector<float>(experts, 0.3F), token));
        EXPECT_LE(token.entropy, most) << experts;
        tally.add(token);
      }
      EXPECT_LE(tally.statistics().router_entropy, most) << experts;
      EXPECT_NEAR(tally.statistics().router_entropy, most, 1e-12);
    }
  }
}

TEST(RoutingStatistics, TransitionsByHand) {
  TransitionTally tally(2, 3);
  tally.add(token_of({0}, {1.0}), token_of({2, 1}, {0.5, 0.5}));
  tally.add(token_of({0}, {1.0}), token_of({2, 0}, {0.5, 0.5}));
  tally.add(token_of({1}, {1.0}), token_of({0, 1}, {0.5, 0.5}));
  const std::vector<float> lift = tally.lift();
  EXPECT_NEAR(lift[0 * 3 + 2], 2.0 * 3.0 / (2.0 * 2.0), 1e-6);
  EXPECT_NEAR(lift[1 * 3 + 0], 1.0 * 3.0 / (1.0 * 2.0), 1e-6);
  EXPECT_EQ(lift[1 * 3 + 2], 0.0F);
}

/// Tokens of logits with a structure: neighbours are liked together.
std::vector<std::vector<float>> some_logits(std::int64_t tokens, std::int64_t experts) {
  DrawStream draws(7);
  std::vector<std::vector<float>> rows;
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<float> row(static_cast<std::size_t>(experts));
    for (float& logit : row) {
      logit = static_cast<float>(draws.normal());
    }
    const std::size_t liked = draws.below(row.size());
    row[liked] += 2.0F;
    row[(liked + 1) % row.size()] += 1.5F;
    rows.push_back(std::move(row));
  }
  return rows;
}

RoutingStatistics statistics_of(const RouterRule& rule,
                                const std::vector<std::vector<float>>& rows) {
  TokenRouter router(rule, static_cast<std::int64_t>(rows[0].size()));
  RoutingTally tally(router.experts(), static_cast<std::int64_t>(rows.size()));
  RoutedToken token;
  for (const auto& row : rows) {
    EXPECT_TRUE(router.route(row, token));
    tally.add(token);
  }
  return tally.statistics();
}

TEST(RoutingStatistics, PermutedExpertsPermuteResults) {
  const RouterRule rule{.top_k = 3, .normalised = true};
  auto rows = some_logits(500, 11);
  const RoutingStatistics before = statistics_of(rule, rows);
  std::vector<std::size_t> order(11);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 4, order.end());
  std::swap(order[1], order[9]);
  for (auto& row : rows) {
    std::vector<float> moved(11);
    for (std::size_t e = 0; e < 11; ++e) {
      moved[e] = row[order[e]];
    }
    row = moved;
  }
  const RoutingStatistics after = statistics_of(rule, rows);
  for (std::size_t e = 0; e < 11; ++e) {
    EXPECT_EQ(after.load[e], before.load[order[e]]);
    EXPECT_NEAR(after.mean_weight[e], before.mean_weight[order[e]], 1e-14);
    for (std::size_t f = 0; f < 11; ++f) {
      if (e != f) {
        EXPECT_EQ(after.coactivation_lift[e * 11 + f],
                  before.coactivation_lift[order[e] * 11 + order[f]]);
      }
    }
  }
  EXPECT_NEAR(after.margin, before.margin, 1e-14);
  EXPECT_NEAR(after.loads.gini, before.loads.gini, 1e-15);
  EXPECT_NEAR(after.router_entropy, before.router_entropy, 1e-12);
}

TEST(RoutingStatistics, TokensTwiceLeaveSharesAsTheyAre) {
  const RouterRule rule{.scoring = RouterScoring::kSigmoid, .top_k = 2};
  auto rows = some_logits(200, 8);
  const RoutingStatistics once = statistics_of(rule, rows);
  const auto copy = rows;
  rows.insert(rows.end(), copy.begin(), copy.end());
  const RoutingStatistics twice = statistics_of(rule, rows);
  EXPECT_EQ(once.load, twice.load);
  EXPECT_EQ(once.margin, twice.margin);
  EXPECT_NEAR(once.loads.cv, twice.loads.cv, 1e-14);
  EXPECT_NEAR(once.coactivation_lift[1], twice.coactivation_lift[1], 1e-6);
}

TEST(RoutingStatistics, WeightsVaryAsTheyDo) {
  RoutingTally tally(2, 2);
  tally.add(token_of({0}, {0.5}));
  tally.add(token_of({1}, {0.9}));
  const RoutingStatistics s = tally.statistics();
  EXPECT_NEAR(s.weight_deviation, 0.2, 1e-15);
  EXPECT_NEAR(mean_weight_deviation(s, 0.5), 0.2, 1e-15);
}

// Tails are of pairs that are expected fewer than five times; the rest has a deviation.
TEST(RoutingStatistics, RarePairsHaveTails) {
  RoutingTally tally(4, 40);
  TransitionTally transitions(4, 4);
  for (int t = 0; t < 40; ++t) {
    const RoutedToken token = t < 36 ? token_of({0, 1}, {0.5, 0.5}) : token_of({2, 3}, {0.5, 0.5});
    tally.add(token);
    transitions.add(token, token);
  }
  UniformRoutingNulls nulls;
  nulls.coactivation = 0.5;
  const std::vector<float> tails = tally.tails(nulls, 4);
  EXPECT_TRUE(std::isnan(tails[0 * 4 + 1]));  // 0.5 * 36 * 36 / 40 = 16.2 expected
  // 0 and 2: 1.8 expected, never seen; 2 and 3: 0.2 expected, seen 4 times.
  EXPECT_NEAR(tails[0 * 4 + 2], std::exp(-1.8), 1e-6);
  EXPECT_EQ(tails[2 * 4 + 0], tails[0 * 4 + 2]);
  EXPECT_NEAR(tails[2 * 4 + 3], 2.0 * 2.9549e-5, 2e-8);
  EXPECT_TRUE(std::isnan(tails[0]));
  const std::vector<float> next = transitions.tails();
  EXPECT_TRUE(std::isnan(next[0 * 4 + 0]));
  EXPECT_NEAR(next[2 * 4 + 3], 2.0 * 4.1875e-4, 2e-7);  // 0.4 expected, seen 4 times
  EXPECT_NEAR(next[0 * 4 + 2], std::exp(-3.6), 1e-6);
}

TEST(RoutingStatistics, SpreadOfLogitsIsAboutTheirTokens) {
  LogitSpread measured;
  for (const auto& row : some_logits(2000, 8)) {
    measured.add(row);
  }
  EXPECT_NEAR(measured.mean(), 3.5 / 8.0, 0.03);
  EXPECT_GT(measured.deviation(), 1.0);
}

}  // namespace
}  // namespace vindex::statistics::routing_statistics_test
