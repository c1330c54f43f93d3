// Routing of single tokens by hand: scores, biases, groups, ties, tokens that go nowhere.
#include "statistics/routing/token_router.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace vindex::statistics::token_router_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

RoutedToken routed(const RouterRule& rule, const std::vector<float>& logits,
                   const std::vector<float>& bias = {}) {
  TokenRouter router(rule, static_cast<std::int64_t>(logits.size()), bias);
  RoutedToken token;
  EXPECT_TRUE(router.route(logits, token));
  return token;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

TEST(TokenRouter, SoftmaxOfAllAndOfTheChosen) {
  const float two = std::log(2.0F);
  const std::vector<float> logits = {0.0F, two, 2.0F * two, 0.0F};  // shares 1 2 4 1 of 8
  RouterRule rule{.top_k = 2};
  RoutedToken token = routed(rule, logits);
  EXPECT_EQ(token.experts, (std::vector<std::int32_t>{2, 1}));
  EXPECT_NEAR(token.weights[0], 0.5, 1e-7);
  EXPECT_NEAR(token.weights[1], 0.25, 1e-7);
  EXPECT_NEAR(token.margin, 0.125, 1e-7);
  EXPECT_NEAR(token.entropy, (0.5 + 0.5 + 0.375 + 0.375) * std::log(2.0), 1e-7);
  rule.normalised = true;
  rule.scale = 3.0;
  token = routed(rule, logits);
  EXPECT_NEAR(token.weights[0], 2.0, 1e-6);
  EXPECT_NEAR(token.weights[1], 1.0, 1e-6);
}

TEST(TokenRouter, BiasChoosesAndScoresWeigh) {
  const RouterRule rule{.scoring = RouterScoring::kSigmoid, .top_k = 1, .biased = true};
  const RoutedToken token = routed(rule, {1.0F, 0.0F, -1.0F}, {0.0F, 0.0F, 0.9F});
  EXPECT_EQ(token.experts, std::vector<std::int32_t>{2});
  EXPECT_NEAR(token.weights[0], sigmoid(-1.0), 1e-12);
  EXPECT_NEAR(token.margin, sigmoid(-1.0) + 0.9 - sigmoid(1.0), 1e-7);
}

TEST(TokenRouter, SqrtSoftplusOfLargeAndSmall) {
  const RouterRule rule{.scoring = RouterScoring::kSqrtSoftplus, .top_k = 1};
  EXPECT_NEAR(routed(rule, {100.0F, -100.0F}).weights[0], 10.0, 1e-12);
  EXPECT_NEAR(routed(rule, {0.0F, -100.0F}).weights[0], std::sqrt(std::log(2.0)), 1e-12);
}

// Groups {0,1} {2,3} {4,5}. The largest score is in group 2; the two largest together in group 1.
TEST(TokenRouter, GroupsByTheirLargestOrTheirTwoLargest) {
  const std::vector<float> logits = {-1.0F, -1.0F, 1.0F, 1.0F, 1.5F, -3.0F};
  RouterRule rule{.scoring = RouterScoring::kSigmoid,
                  .top_k = 2,
                  .groups = 3,
                  .chosen_groups = 1,
                  .group_score = GroupScore::kTwoLargest};
  RoutedToken token = routed(rule, logits);
  EXPECT_EQ(token.experts, (std::vector<std::int32_t>{2, 3}));
  EXPECT_TRUE(std::isnan(token.margin));  // nobody else may be chosen
  rule.group_score = GroupScore::kLargest;
  token = routed(rule, logits);
  EXPECT_EQ(token.experts, (std::vector<std::int32_t>{4, 5}));
  rule.chosen_groups = 3;
  EXPECT_EQ(routed(rule, logits).experts, (std::vector<std::int32_t>{4, 2}));
}

// Scores may be equal where logits are not: both underflow. Then logits decide, then numbers.
TEST(TokenRouter, TiesGoToTheLargerLogitThenTheSmallerNumber) {
  const RouterRule rule{.top_k = 2};
  EXPECT_EQ(routed(rule, {1.0F, 1.0F, 1.0F}).experts, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(routed(rule, {-900.0F, 0.0F, -800.0F}).experts, (std::vector<std::int32_t>{1, 2}));
}

TEST(TokenRouter, TokensWithoutFiniteLogitsGoNowhere) {
  TokenRouter router({.top_k = 1}, 2);
  RoutedToken token;
  EXPECT_FALSE(router.route(std::vector<float>{kNaN, 0.0F}, token));
  EXPECT_FALSE(router.route(std::vector<float>{0.0F, kInfinity}, token));
  EXPECT_FALSE(router.route(std::vector<float>{-kInfinity, -kInfinity}, token));
  ASSERT_TRUE(router.route(std::vector<float>{-kInfinity, 0.0F}, token));
  EXPECT_EQ(token.experts, std::vector<std::int32_t>{1});
  EXPECT_EQ(token.entropy, 0.0);
}

TEST(TokenRouter, RefusesRulesThatDoNotFit) {
  const auto refusal = [](const RouterRule& rule) {
    return vindex::testing::error_of([&] { TokenRouter(rule, 8); });
  };
  EXPECT_EQ(refusal({.top_k = 9}), "E-ROUTER-RULE");
  EXPECT_EQ(refusal({.top_k = 0}), "E-ROUTER-RULE");
  EXPECT_EQ(refusal({.top_k = 1, .groups = 3}), "E-ROUTER-RULE");
  EXPECT_EQ(refusal({.top_k = 3, .groups = 4, .chosen_groups = 1}), "E-ROUTER-RULE");
  EXPECT_EQ(refusal({.top_k = 1, .biased = true}), "E-ROUTER-RULE");
}

}  // namespace
}  // namespace vindex::statistics::token_router_test
