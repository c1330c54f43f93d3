#include "measure/finite_sample.hpp"

#include "measure/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace vindex::measure::finite_sample_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<double> counted(int count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// By hand: s^2 = 38/3, of 4 among 10; 3.182446 is Student's 97.5 % point of 3 degrees of freedom.
TEST(FiniteSampleTest, MeanOfFourAmongTen) {
  const Estimate mean = estimate_mean(std::vector<double>{9.0, 1.0, 2.0, 4.0}, 6);
  EXPECT_DOUBLE_EQ(mean.value, 4.0);
  EXPECT_NEAR(mean.error, std::sqrt(38.0 / 3.0 / 4.0 * 0.6), 1e-14);
  EXPECT_NEAR(mean.high - mean.value, 3.182446305284263 * mean.error, 1e-9);
  EXPECT_NEAR(mean.value - mean.low, 3.182446305284263 * mean.error, 1e-9);
}

// Student's 97.5 % points of 1, 2, 15 and 383 degrees of freedom (scipy 1.11: stats.t.ppf).
TEST(FiniteSampleTest, StudentsQuantileOfAnyFreedom) {
  const auto reach = [](int count) {
    const Estimate mean = estimate_mean(counted(count), 1000);
    return (mean.high - mean.value) / mean.error;
  };
  EXPECT_NEAR(reach(2), 12.706204736432095, 1e-8);
  EXPECT_NEAR(reach(3), 4.302652729696142, 1e-8);
  EXPECT_NEAR(reach(16), 2.131449545559323, 1e-8);
  EXPECT_NEAR(reach(384), 1.966185, 1e-5);
}

// By exact fractions of binomial coefficients.
TEST(FiniteSampleTest, QuantilesByTheHypergeometricLaw) {
  const Estimate small = estimate_quantile(std::vector<double>{4.0, 9.0, 1.0, 2.0}, 0.5, 6);
  EXPECT_DOUBLE_EQ(small.value, 3.0);
  EXPECT_NEAR(small.error, 2.0194631198704784, 1e-12);
  EXPECT_EQ(small.low, 1.0);
  EXPECT_EQ(small.high, 9.0);
  const Estimate median = estimate_quantile(counted(16), 0.5, 368);
  EXPECT_NEAR(median.error, 1.96040079501899, 1e-11);
  EXPECT_EQ(median.low, 4.0);
  EXPECT_EQ(median.high, 13.0);
  const Estimate lower = estimate_quantile(counted(16), 0.25, 368);
  EXPECT_NEAR(lower.error, 1.6878193787162776, 1e-11);
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
  EXPECT_NEAR(lower.error, 1.1398263332615695, 1e-11);
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
  every_sample(population, 7, [&](const std::vector<double>& sample) {
    const Estimate estimate = estimate_mean(sample, 5);
    square_error += (estimate.value - mean) * (estimate.value - mean);
    stated += estimate.error * estimate.error;
    ++count;
  });
  EXPECT_EQ(count, 792.0);
  EXPECT_NEAR(stated / square_error, 1.0, 1e-12);
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
}  // namespace vindex::measure::finite_sample_test
