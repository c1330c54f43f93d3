// What a sample without replacement says of the whole: errors and intervals by hand, by counting,
// and over all samples that there are.
#include "statistics/null/finite_sample.hpp"

#include "statistics/samples/quantile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace vindex::statistics::finite_sample_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> counted(int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// By hand: s^2 = 38/3 of 4 among 10.
TEST(FiniteSampleTest, MeanOfFourAmongTen) {
  const std::vector<double> values = {9.0, 1.0, 2.0, 4.0};
  const Estimate mean = estimate_mean(values, 6);
  EXPECT_DOUBLE_EQ(mean.value, 4.0);
  EXPECT_NEAR(mean.error, std::sqrt(38.0 / 3.0 / 4.0 * 0.6), 1e-14);
  // One of the six may be as large or as small as it likes.
  EXPECT_TRUE(std::isnan(mean.low) && std::isnan(mean.high));
  const Estimate above = estimate_mean(values, 6, {.low = 0.0});
  EXPECT_GE(above.low, (1.0 + 2.0 + 4.0 + 9.0) / 10.0 - 1e-12);
  EXPECT_LT(above.low, 4.0);
  EXPECT_TRUE(std::isnan(above.high));
  const Estimate within = estimate_mean(values, 6, {.low = 0.0, .high = 10.0});
  EXPECT_EQ(within.low, above.low);
  EXPECT_LE(within.high, (16.0 + 60.0) / 10.0 + 1e-12);
  EXPECT_GT(within.high, 4.0);
}

// By counting: of 2 among 4 the chance that the larger is among the two lowest is 1/6, and of 1
// among 100 that it is among the two lowest 0.02.
TEST(FiniteSampleTest, LeastRanksByCounting) {
  EXPECT_EQ(least_ranks(2, 4), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(least_ranks(1, 100), (std::vector<std::int64_t>{3}));
  for (const auto& [n, population] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 8}, {16, 64}, {64, 384}, {7, 12}}) {
    const std::vector<std::int64_t> ranks = least_ranks(n, population);
    ASSERT_EQ(static_cast<std::int64_t>(ranks.size()), n);
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      EXPECT_GE(ranks[k], static_cast<std::int64_t>(k) + 1);
      EXPECT_TRUE(k == 0 || ranks[k] >= ranks[k - 1]);
    }
    EXPECT_LE(ranks.back(), population);
  }
}

// By exact fractions of binomial coefficients.
TEST(FiniteSampleTest, QuantilesByTheHypergeometricLaw) {
  const Estimate small = estimate_quantile(std::vector<double>{4.0, 9.0, 1.0, 2.0}, 0.5, 6);
  EXPECT_DOUBLE_EQ(small.value, 3.0);
  // Of 0 to 4 of the five lowest among the four: 5, 50, 100, 50, 5 of 210 samples. Mean squares of
  // the distance from 3 between neighbours, and one neighbour's distance beyond the last.
  const auto between = [](double low, double high) {
    return (std::pow(high - 3.0, 3) - std::pow(low - 3.0, 3)) / (3.0 * (high - low));
  };
  EXPECT_NEAR(small.error,
              std::sqrt((5.0 * between(0, 1) + 50.0 * between(1, 2) + 100.0 * between(2, 4) +
                         50.0 * between(4, 9) + 5.0 * between(9, 14)) /
                        210.0),
              1e-12);
  EXPECT_EQ(small.low, 1.0);
  EXPECT_EQ(small.high, 9.0);
  const Estimate median = estimate_quantile(counted(16), 0.5, 368);
  EXPECT_NEAR(median.error, 1.98, 0.03);  // of steps of one: sd of the place, about
  EXPECT_EQ(median.low, 4.0);
  EXPECT_EQ(median.high, 13.0);
  const Estimate lower = estimate_quantile(counted(16), 0.25, 368);
  EXPECT_NEAR(lower.error, 1.75, 0.06);
  EXPECT_EQ(lower.low, 1.0);
  EXPECT_EQ(lower.high, 8.0);
  const Estimate upper = estimate_quantile(counted(16), 0.75, 368);
  EXPECT_NEAR(upper.error, lower.error, 1e-11);
  EXPECT_EQ(upper.low, 9.0);
  EXPECT_EQ(upper.high, 16.0);
}

TEST(FiniteSampleTest, TooFewValuesGiveNoBoundAndNoError) {
  const Estimate lower = estimate_quantile(counted(8), 0.25, 376);
  EXPECT_TRUE(std::isnan(lower.low)) << "below the least of eight lies a quartile in one of ten";
  EXPECT_EQ(lower.high, 6.0);
  EXPECT_NEAR(lower.error, 1.28, 0.1);
  const Estimate pair = estimate_quantile(counted(2), 0.5, 382);
  EXPECT_DOUBLE_EQ(pair.value, 1.5);
  EXPECT_TRUE(std::isnan(pair.error) && std::isnan(pair.low) && std::isnan(pair.high));
  const Estimate one = estimate_mean(counted(1), 3);
  EXPECT_DOUBLE_EQ(one.value, 1.0);
  EXPECT_TRUE(std::isnan(one.error) && std::isnan(one.low) && std::isnan(one.high));
  for (const Estimate& none : {estimate_mean({}, 5), estimate_quantile({}, 0.5, 5),
                               estimate_mean(std::vector<double>{kNaN}, 0)}) {
    EXPECT_TRUE(std::isnan(none.value) && std::isnan(none.error));
  }
}

TEST(FiniteSampleTest, TheWholeHasNoError) {
  const std::vector<double> values = {0.3, kNaN, 0.1, 0.2, 0.7};
  for (const Estimate& whole : {estimate_mean(values, 0), estimate_quantile(values, 0.25, 0),
                                estimate_quantile(values, 0.5, 0)}) {
    EXPECT_EQ(whole.error, 0.0);
    EXPECT_EQ(whole.low, whole.value);
    EXPECT_EQ(whole.high, whole.value);
  }
  EXPECT_DOUBLE_EQ(estimate_mean(values, 0).value, 0.325);
  EXPECT_EQ(estimate_mean(counted(1), 0).error, 0.0);
}

TEST(FiniteSampleTest, ValuesThatAreNoNumbersCountForNothing) {
  const std::vector<double> with = {4.0, kNaN, 9.0, 1.0, kNaN, 2.0};
  const std::vector<double> without = {4.0, 9.0, 1.0, 2.0};
  EXPECT_EQ(estimate_mean(with, 6).error, estimate_mean(without, 6).error);
  EXPECT_EQ(estimate_quantile(with, 0.5, 6).error, estimate_quantile(without, 0.5, 6).error);
}

/// All samples of n of `population`, each once.
template <typename Each>
void every_sample(const std::vector<double>& population, std::size_t n, const Each& each) {
  std::vector<bool> is_taken(population.size());
  std::fill(is_taken.begin(), is_taken.begin() + static_cast<std::ptrdiff_t>(n), true);
  do {
    std::vector<double> sample;
    for (std::size_t i = 0; i < population.size(); ++i) {
      if (is_taken[i]) {
        sample.push_back(population[i]);
      }
    }
    each(sample);
  } while (std::prev_permutation(is_taken.begin(), is_taken.end()));
}

// Exactly: over all samples of 7 of 12 values with an outlier and ties, the mean's square error is
// the mean of the squares of its standard errors, and the intervals of quantiles hold in 95 % or
// more.
TEST(FiniteSampleTest, HoldsOverAllSamplesThereAre) {
  const std::vector<double> population = {0.0, 0.1, 0.1, 0.3, 0.31, 0.4,
                                          0.4, 0.4, 0.7, 0.9, 1.0,  40.0};
  const double mean = std::accumulate(population.begin(), population.end(), 0.0) / 12.0;
  double square_error = 0.0;
  double stated = 0.0;
  double count = 0.0;
  double held_mean = 0.0;
  every_sample(population, 7, [&](const std::vector<double>& sample) {
    const Estimate estimate = estimate_mean(sample, 5);
    square_error += (estimate.value - mean) * (estimate.value - mean);
    stated += estimate.error * estimate.error;
    const Estimate within = estimate_mean(sample, 5, {.low = 0.0, .high = 100.0});
    held_mean += within.low <= mean && mean <= within.high ? 1.0 : 0.0;
    ++count;
  });
  EXPECT_EQ(count, 792.0);
  EXPECT_NEAR(stated / square_error, 1.0, 1e-12);
  EXPECT_GE(held_mean / count, 0.95);
  for (const double q : {0.25, 0.5, 0.75}) {
    const double truth = quantile(population, q);
    double held = 0.0;
    every_sample(population, 7, [&](const std::vector<double>& sample) {
      const Estimate estimate = estimate_quantile(sample, q, 5);
      held += (!(estimate.low > truth) && !(estimate.high < truth)) ? 1.0 : 0.0;
    });
    EXPECT_GE(held / count, 0.95) << q;
  }
}

// Half of the experts are of another kind: the error of a quantile is what of them a sample has by
// chance. By the middle between two values it was 0.6 of that.
TEST(FiniteSampleTest, TheErrorOfAMedianOfTwoKindsIsNoSmaller) {
  for (const std::size_t n : {3U, 4U, 5U, 7U}) {
    const std::vector<double> population = {0.0, 0.01, 0.02, 0.03, 0.04, 0.05,
                                            1.0, 1.01, 1.02, 1.03, 1.04, 1.05};
    const auto untried = static_cast<std::int64_t>(population.size() - n);
    for (const double q : {0.25, 0.5, 0.75}) {
      const double truth = quantile(population, q);
      double stated = 0.0;
      double square = 0.0;
      every_sample(population, n, [&](const std::vector<double>& sample) {
        const Estimate estimate = estimate_quantile(sample, q, untried);
        stated += estimate.error * estimate.error;
        square += (estimate.value - truth) * (estimate.value - truth);
      });
      if (!std::isnan(stated)) {
        EXPECT_GT(std::sqrt(stated / square), 0.85) << n << " " << q;
        EXPECT_LT(std::sqrt(stated / square), 1.9) << n << " " << q;
      }
    }
  }
}

DrawnMember member(std::int32_t draw, bool is_tried, std::int32_t of = 5) {
  return {.draw = draw, .draw_of = of, .is_tried = is_tried};
}

TEST(DrawnGroupTest, IsTheFirstPlacesWithoutAGap) {
  const std::vector<DrawnMember> members = {member(3, true), member(0, true), member(2, false),
                                            member(1, true), member(4, true)};
  const DrawnGroup group = drawn_group(members);
  EXPECT_EQ(group.total, 5);
  EXPECT_EQ(group.tried, 2);
  EXPECT_EQ(group.untried(), 3);
  EXPECT_FALSE(group.is_whole());
  EXPECT_TRUE(group.holds(0) && group.holds(1));
  EXPECT_FALSE(group.holds(2) || group.holds(3) || group.holds(-1));
}

TEST(DrawnGroupTest, MembersOfNoDrawCountOnlyTowardsTheWhole) {
  std::vector<DrawnMember> members = {member(0, true), member(1, true), member(-1, true, -1),
                                      member(-1, true, -1), member(-1, false, -1)};
  EXPECT_EQ(drawn_group(members).tried, 2);
  members.back().is_tried = true;
  const DrawnGroup whole = drawn_group(members);
  EXPECT_TRUE(whole.is_whole() && whole.holds(-1));
  EXPECT_EQ(whole.untried(), 0);
}

TEST(DrawnGroupTest, NothingDrawnIsNoGroup) {
  EXPECT_FALSE(drawn_group({}).is_drawn());
  const std::vector<DrawnMember> members = {member(-1, true, -1), member(-1, false, -1)};
  EXPECT_FALSE(drawn_group(members).is_drawn());
  // What a damaged file may claim.
  const std::vector<DrawnMember> wild = {member(2147483647, true, 2147483647), member(0, true, 7)};
  EXPECT_EQ(drawn_group(wild).tried, 1);
}

}  // namespace
}  // namespace vindex::statistics::finite_sample_test
