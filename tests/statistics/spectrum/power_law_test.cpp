// The fit of a power law: by hand, and against the full search over every start of the tail.
#include "statistics/spectrum/power_law.hpp"

#include "statistics/spectrum/noise_spectrum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace vindex::statistics::power_law_test {
namespace {

struct NaiveFit {
  std::size_t index = 0;  // of x_min among the ascending values
  double alpha = 0.0, xmin = 0.0, ks = INFINITY, tail = 0.0;
};

// WeightWatcher's search as its formula reads: every x_min but the last, in full, with powers.
NaiveFit naive_fit(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  NaiveFit best;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const auto m = static_cast<double>(values.size() - i);
    double log_sum = 0.0;
    for (std::size_t j = i; j < values.size(); ++j) {
      log_sum += std::log(values[j]);
    }
    const double alpha = 1.0 + m / (log_sum - m * std::log(values[i]));
    double distance = 0.0;
    for (std::size_t j = i; j < values.size(); ++j) {
      distance = std::max(distance, std::abs(1.0 - std::pow(values[j] / values[i], 1.0 - alpha) -
                                             static_cast<double>(j - i) / m));
    }
    if (distance < best.ks) {
      best = {i, alpha, values[i], distance, m};
    }
  }
  return best;
}

PowerLawFit fast_fit(std::vector<double> values) {
  std::sort(values.rbegin(), values.rend());
  std::vector<double> logs(values.size());
  std::transform(values.begin(), values.end(), logs.begin(), [](double x) { return std::log(x); });
  return fit_power_law(values, logs);
}

void expect_same(const std::vector<double>& values) {
  const NaiveFit naive = naive_fit(values);
  const PowerLawFit fast = fast_fit(values);
  EXPECT_EQ(fast.tail, naive.tail) << "the same x_min index";
  EXPECT_EQ(fast.xmin, naive.xmin);
  EXPECT_NEAR(fast.alpha, naive.alpha, 1e-9 * naive.alpha);
  EXPECT_NEAR(fast.ks, naive.ks, 1e-11);
}

// By hand, values 1, e, e^2. x_min = 1: alpha = 1 + 3/3 = 2, D = max(0, |1 - 1/e - 1/3|,
// |1 - 1/e^2 - 2/3|) = 0.29879. x_min = e: alpha = 1 + 2/1 = 3, D = |1 - e^-2 - 1/2| = 0.36466.
TEST(PowerLawTest, ThreeValuesByHand) {
  const double e = std::exp(1.0);
  const PowerLawFit fit = fast_fit({e * e, 1.0, e});
  EXPECT_NEAR(fit.alpha, 2.0, 1e-14);
  EXPECT_EQ(fit.xmin, 1.0);
  EXPECT_EQ(fit.tail, 3.0);
  EXPECT_NEAR(fit.ks, 1.0 - 1.0 / e - 1.0 / 3.0, 1e-14);
}

TEST(PowerLawTest, TwoValues) {
  const PowerLawFit fit = fast_fit({2.0, 1.0});
  EXPECT_NEAR(fit.alpha, 1.0 + 2.0 / std::log(2.0), 1e-14);
  EXPECT_EQ(fit.tail, 2.0);
}

TEST(PowerLawTest, UndefinedWithoutTwoDifferentPositiveValues) {
  for (const std::vector<double>& values :
       {std::vector<double>{}, {3.0}, {3.0, 0.0, 0.0}, {3.0, 3.0, 3.0}}) {
    const PowerLawFit fit = fast_fit(values);
    EXPECT_TRUE(std::isnan(fit.alpha) && std::isnan(fit.xmin) && std::isnan(fit.ks) &&
                std::isnan(fit.tail));
  }
}

TEST(PowerLawTest, ZerosAreLeftOut) {
  const PowerLawFit with = fast_fit({9.0, 4.0, 2.0, 1.5, 0.0, 0.0});
  const PowerLawFit without = fast_fit({9.0, 4.0, 2.0, 1.5});
  EXPECT_EQ(with.xmin, without.xmin);
  EXPECT_EQ(with.alpha, without.alpha);
}

TEST(PowerLawTest, DoesNotDependOnTheScale) {
  std::vector<double> values = {1.0, 1.3, 1.9, 2.2, 4.0, 7.5, 20.0};
  const PowerLawFit fit = fast_fit(values);
  for (double& value : values) {
    value *= 0x1p-200;
  }
  const PowerLawFit scaled = fast_fit(values);
  EXPECT_EQ(scaled.tail, fit.tail);
  EXPECT_NEAR(scaled.alpha, fit.alpha, 1e-12);
}

TEST(PowerLawTest, EqualsTheFullSearchOnDrawnSpectra) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(1e-6, 1.0);
    std::normal_distribution<double> normal;
    const std::size_t count = 2 + engine() % 300;
    std::vector<double> values(count);
    for (double& value : values) {
      switch (seed % 4) {
        case 0:  // a power law
          value = std::pow(uniform(engine), -1.0 / 1.5);
          break;
        case 1:  // no tail
          value = uniform(engine);
          break;
        case 2:  // log-normal
          value = std::exp(2.0 * normal(engine));
          break;
        default:  // many equal values
          value = 1.0 + static_cast<double>(engine() % 7);
      }
    }
    if (*std::min_element(values.begin(), values.end()) !=
        *std::max_element(values.begin(), values.end())) {
      expect_same(values);
    }
  }
}

TEST(PowerLawTest, EqualsTheFullSearchOnSmoothSpectra) {
  for (const double exponent : {0.3, 1.0, 2.5}) {
    std::vector<double> power;
    std::vector<double> exact;  // quantiles of a power law: D is as small as can be
    std::vector<double> linear;
    std::vector<double> spiked;
    for (int i = 0; i < 700; ++i) {
      power.push_back(std::pow(1.0 + i, -exponent));
      exact.push_back(std::pow(1.0 - i / 700.0, -exponent));
      linear.push_back(1.0 + exponent * i);
      spiked.push_back(i < 20 ? 50.0 + i * i * exponent : 2.0 + std::sin(i * 0.002));
    }
    expect_same(power);
    expect_same(exact);
    expect_same(linear);
    expect_same(spiked);
  }
}

// The size that matters: an expert of 2048 x 7168, noise with and without strong directions.
TEST(PowerLawTest, EqualsTheFullSearchOnAWholeExpert) {
  const MarchenkoPastur law(2048.0 / 7168.0);
  std::mt19937_64 engine(20);
  std::normal_distribution<double> normal;
  std::vector<double> noise;
  std::vector<double> directed;
  for (int i = 0; i < 2048; ++i) {
    const double value = law.quantile((i + 0.5) / 2048.0) * (1.0 + 1e-4 * normal(engine));
    noise.push_back(value);
    directed.push_back(value * (1.0 + 20.0 * std::exp((i - 2047) / 50.0)));
  }
  expect_same(noise);
  expect_same(directed);
}

}  // namespace
}  // namespace vindex::statistics::power_law_test
