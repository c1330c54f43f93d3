// Statistics of routed tokens by hand, by symmetry, and their nulls beside draws.
#include "draw_stream.hpp"

#include <vindex/measure/routing_statistics.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::measure {
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
  const UniformRoutingNulls nulls = uniform_routing_nulls(rule, 8, 400);
  EXPECT_NEAR(nulls.cv.mean, drawn.cv, 0.06 * drawn.cv);
  EXPECT_NEAR(nulls.cv.mean, std::sqrt(0.75 / 100.0) * 0.965, 0.05 * drawn.cv);
  EXPECT_NEAR(1.0 - nulls.entropy.mean, 1.0 - drawn.entropy, 0.1 * (1.0 - drawn.entropy));
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.06 * drawn.gini);
  EXPECT_NEAR(nulls.max_over_mean.mean - 1.0, drawn.max_over_mean - 1.0, 0.01);
  EXPECT_NEAR(nulls.load_deviation, drawn.load_deviation, 0.08 * drawn.load_deviation);
  EXPECT_NEAR(nulls.coactivation, drawn.lift, 0.03);
  EXPECT_NEAR(nulls.coactivation, 8.0 / (2.0 * 7.0), 1e-15);
  EXPECT_NEAR(nulls.coactivation_deviation, drawn.lift_deviation, 0.08 * drawn.lift_deviation);
  EXPECT_NEAR(nulls.dead_experts, 0.0, 1e-12);
  EXPECT_TRUE(std::isnan(nulls.same_group));
}

TEST(RoutingNulls, OfFewTokensCountTheDead) {
  const RouterRule rule{.top_k = 1};
  const Drawn drawn = draw_statistics(rule, 16, 20, 1000);
  const UniformRoutingNulls nulls = uniform_routing_nulls(rule, 16, 20);
  EXPECT_NEAR(nulls.dead_experts, 16.0 * std::pow(15.0 / 16.0, 20.0), 1e-12);
  EXPECT_NEAR(nulls.dead_experts, drawn.dead, 0.15);
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.02);
  EXPECT_EQ(nulls.coactivation, 0.0);  // one expert a token: never two together
}

TEST(RoutingNulls, KnowGroups) {
  const RouterRule rule{
      .scoring = RouterScoring::kSigmoid, .top_k = 2, .groups = 4, .chosen_groups = 2};
  const Drawn drawn = draw_statistics(rule, 12, 300, 1000);
  const UniformRoutingNulls nulls = uniform_routing_nulls(rule, 12, 300);
  EXPECT_NEAR(nulls.coactivation, drawn.lift, 0.03);
  EXPECT_NEAR(nulls.same_group, drawn.same, 0.06);
  EXPECT_GT(nulls.same_group, 1.2 * nulls.coactivation);
  EXPECT_NEAR(nulls.same_group_deviation, drawn.same_deviation, 0.1 * drawn.same_deviation);
  EXPECT_NEAR(nulls.cv.mean, drawn.cv, 0.06 * drawn.cv);
  EXPECT_NEAR(nulls.gini.mean, drawn.gini, 0.06 * drawn.gini);
}

// The limit of many tokens joins the exact draws where it takes over.
TEST(RoutingNulls, NormalLimitJoinsExactDraws) {
  for (const RouterRule& rule :
       {RouterRule{.top_k = 2},
        RouterRule{
            .scoring = RouterScoring::kSigmoid, .top_k = 2, .groups = 4, .chosen_groups = 2}}) {
    const std::int64_t edge = 12000;  // 2000 selections for each of 12 experts
    const UniformRoutingNulls exact = uniform_routing_nulls(rule, 12, edge);
    const UniformRoutingNulls limit = uniform_routing_nulls(rule, 12, edge + 1);
    EXPECT_NEAR(exact.cv.mean, limit.cv.mean, 0.08 * exact.cv.mean);
    EXPECT_NEAR(exact.gini.mean, limit.gini.mean, 0.08 * exact.gini.mean);
    EXPECT_NEAR(exact.max_over_mean.mean, limit.max_over_mean.mean, 0.004);
    EXPECT_NEAR(1.0 - exact.entropy.mean, 1.0 - limit.entropy.mean,
                0.15 * (1.0 - exact.entropy.mean));
  }
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

TEST(RoutingNulls, NoiseRoutersOfNoAndOfSomeSpread) {
  const RouterRule rule{.top_k = 2};
  const NoiseRouter flat = noise_router(rule, 8, 0.3, 0.0);
  EXPECT_NEAR(flat.entropy, std::log(8.0), 1e-12);
  EXPECT_NEAR(flat.margin, 0.0, 1e-15);
  const NoiseRouter spread = noise_router(rule, 8, 0.3, 1.0);
  EXPECT_LT(spread.entropy, flat.entropy - 0.2);
  EXPECT_GT(spread.margin, 0.01);
  LogitSpread measured;
  for (const auto& row : some_logits(2000, 8)) {
    measured.add(row);
  }
  EXPECT_NEAR(measured.mean(), 3.5 / 8.0, 0.03);
  EXPECT_GT(measured.deviation(), 1.0);
}

}  // namespace
}  // namespace vindex::measure
