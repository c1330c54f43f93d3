// The null of a lookup beside closed forms and beside draws.
#include <vindex/measure/largest_cosine.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace {

namespace measure = vindex::measure;

TEST(LargestCosine, AgreesWithClosedForms) {
  // On a circle the angle is uniform; on a sphere the coordinate is (Archimedes).
  for (const double c : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    EXPECT_NEAR(measure::chance_of_cosine(c, 2), 2.0 / std::acos(-1.0) * std::acos(c), 1e-12);
    EXPECT_NEAR(measure::chance_of_cosine(c, 3), 1.0 - c, 1e-12);
    EXPECT_NEAR(measure::chance_of_cosine(-c, 3), 1.0 - c, 1e-12);
  }
  // 5 dimensions: the density is (3/4) (1 - c^2).
  EXPECT_NEAR(measure::chance_of_cosine(0.5, 5), 1.0 - (3.0 * 0.5 - 0.125) / 2.0, 1e-12);
  // Wide: normal with deviation 1/sqrt(width); its tail keeps its digits (scipy 1.16:
  // betainc(2047.5, 0.5, 1 - 0.1^2)).
  EXPECT_NEAR(measure::chance_of_cosine(0.1, 4096) / 1.4090360238239e-10, 1.0, 1e-9);
  EXPECT_NEAR(measure::chance_of_largest_cosine(0.5, 3, 3), 1.0 - 0.125, 1e-12);
  EXPECT_NEAR(measure::expected_largest_cosine(1000, 100),
              std::sqrt(2.0 * std::log(1000.0) / 100.0), 1e-15);
  EXPECT_TRUE(std::isnan(measure::expected_largest_cosine(0, 100)));
  EXPECT_TRUE(std::isnan(measure::largest_cosine_quantile(0.5, 0, 100)));
  EXPECT_TRUE(std::isnan(measure::largest_cosine_quantile(0.5, 10, 1)));
}

TEST(LargestCosine, QuantilesAreTheInverse) {
  for (const std::int64_t count : {1L, 1000L, 50'000'000L}) {
    for (const double share : {0.05, 0.5, 0.95}) {
      const double c = measure::largest_cosine_quantile(share, count, 7168);
      EXPECT_NEAR(1.0 - measure::chance_of_largest_cosine(c, count, 7168), share, 1e-9);
    }
  }
}

/// The largest cosines of 1,000 draws of `count` directions, ascending. A direction's first
/// coordinate is that of a normal vector over its norm; the rest of the norm is chi-squared.
std::vector<double> drawn(std::int64_t count, std::int64_t width) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(count * 7919 + width));
  std::normal_distribution<double> normal;
  std::gamma_distribution<double> rest(0.5 * static_cast<double>(width - 1), 2.0);
  std::vector<double> largest;
  for (int draw = 0; draw < 1000; ++draw) {
    double best = 0.0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double first = normal(engine);
      best = std::max(best, std::abs(first) / std::sqrt(first * first + rest(engine)));
    }
    largest.push_back(best);
  }
  std::sort(largest.begin(), largest.end());
  return largest;
}

TEST(LargestCosine, StandsBesideDraws) {
  for (const auto& [count, width] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{100, 64}, {1000, 64}, {1000, 4096}}) {
    const std::vector<double> largest = drawn(count, width);
    // Of 1,000 draws the share below the median has the deviation 0.016, below 0.95 0.007.
    for (const double share : {0.5, 0.95}) {
      const double c = measure::largest_cosine_quantile(share, count, width);
      const auto below = std::lower_bound(largest.begin(), largest.end(), c) - largest.begin();
      EXPECT_NEAR(static_cast<double>(below) / 1000.0, share, share == 0.5 ? 0.065 : 0.028);
    }
    // The asymptotic form is above the drawn mean by no more than a tenth here.
    double mean = 0.0;
    for (const double one : largest) {
      mean += one / 1000.0;
    }
    const double ratio = measure::expected_largest_cosine(count, width) / mean;
    EXPECT_GT(ratio, 1.0) << count << " " << width << " " << mean;
    EXPECT_LT(ratio, 1.25) << count << " " << width << " " << mean;
  }
}

}  // namespace
