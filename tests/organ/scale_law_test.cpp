// The line, its interval and the orders, against values by hand.
#include "fleet/scale_law.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace vindex::fleet::scale_law_test {
namespace {

std::vector<std::int64_t> one_group(std::size_t count) {
  return std::vector<std::int64_t>(count, 0);
}

TEST(ScaleLaw, FitsALineAndCountsEveryOrder) {
  const std::vector<double> x = {0, 1, 2, 3, 4, 5};
  const std::vector<double> y = {1, 3.1, 4.9, 7, 9.1, 10.9};
  const ScaleFit fit = fit_scale(x, y, one_group(6));
  EXPECT_EQ(fit.models, 6);
  EXPECT_TRUE(fit.all_orders);
  EXPECT_EQ(fit.orders, 720);
  // By hand: Sxx = 17.5, Sxy = 34.8, residual sum of squares 0.0377.
  EXPECT_NEAR(fit.slope, 34.8 / 17.5, 1e-12);
  EXPECT_NEAR(fit.high - fit.slope, 2.776 * std::sqrt(0.0377143 / 4 / 17.5), 1e-3);
  EXPECT_DOUBLE_EQ(fit.p, 2.0 / 720.0) << "as it is, and the other way round";
}

TEST(ScaleLaw, ExchangesWithinGroupsAlone) {
  // Within each group the figure falls; between them it rises.
  const std::vector<double> x = {0, 1, 2, 3, 10, 11, 12, 13};
  const std::vector<double> y = {3, 2, 1, 0, 23, 22, 21, 20};
  const std::vector<std::int64_t> groups = {0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_GT(fit_scale(x, y, one_group(8)).slope, 1.0);
  const ScaleFit within = fit_scale(x, y, groups);
  EXPECT_NEAR(within.slope, -1.0, 1e-12);
  EXPECT_EQ(within.groups, 2);
  EXPECT_EQ(within.orders, 24 * 24);
  EXPECT_DOUBLE_EQ(within.p, 2.0 / 576.0);
  // A group of one has no slope of its own.
  const std::vector<std::int64_t> lonely = {0, 0, 0, 0, 1, 2, 3, 4};
  EXPECT_EQ(fit_scale(x, y, lonely).models, 4);
}

TEST(ScaleLaw, SaysWhyThereIsNone) {
  const std::vector<double> three = {1, 2, 3};
  EXPECT_FALSE(fit_scale(three, three, one_group(3)).reason.empty());
  EXPECT_TRUE(std::isnan(fit_scale(three, three, one_group(3)).p));
  EXPECT_TRUE(std::isnan(fit_scale(three, three, one_group(3)).slope)) << "no slope without p";
  const std::vector<double> equal = {7, 7, 7, 7, 7, 7};
  const std::vector<double> y = {1, 2, 3, 4, 5, 6};
  EXPECT_FALSE(fit_scale(equal, y, one_group(6)).reason.empty());
}

/// Without dependence p is uniform: a fifth lies below 0.2, and intervals hold 0 as often as they
/// say.
TEST(ScaleLaw, KeepsItsLevel) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  int small = 0;
  int covered = 0;
  constexpr int kFits = 400;
  for (int i = 0; i < kFits; ++i) {
    std::vector<double> x(7), y(7);
    for (std::size_t k = 0; k < x.size(); ++k) {
      x[k] = normal(random);
      y[k] = normal(random);
    }
    const ScaleFit fit = fit_scale(x, y, one_group(7));
    small += fit.p <= 0.2 ? 1 : 0;
    covered += fit.low < 0.0 && fit.high > 0.0 ? 1 : 0;
  }
  EXPECT_NEAR(small, 0.2 * kFits, 3 * std::sqrt(0.2 * 0.8 * kFits));
  EXPECT_NEAR(covered, 0.95 * kFits, 3 * std::sqrt(0.05 * 0.95 * kFits));
}

}  // namespace
}  // namespace vindex::fleet::scale_law_test
