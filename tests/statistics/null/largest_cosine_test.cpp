// The null of a lookup beside closed forms and beside draws.
#include "statistics/null/largest_cosine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <tuple>
#include <vector>

namespace vindex::statistics::largest_cosine_test {
namespace {

namespace statistics = vindex::statistics;
constexpr statistics::CosineSides kOne = statistics::CosineSides::kOne;

TEST(LargestCosine, AgreesWithClosedForms) {
  // On a circle the angle is uniform; on a sphere the coordinate is (Archimedes).
  for (const double c : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    EXPECT_NEAR(statistics::chance_of_cosine(c, 2), 2.0 / std::acos(-1.0) * std::acos(c), 1e-12);
    EXPECT_NEAR(statistics::chance_of_cosine(c, 3), 1.0 - c, 1e-12);
    EXPECT_NEAR(statistics::chance_of_cosine(-c, 3), 1.0 - c, 1e-12);
  }
  // 5 dimensions: the density is (3/4) (1 - c^2).
  EXPECT_NEAR(statistics::chance_of_cosine(0.5, 5), 1.0 - (3.0 * 0.5 - 0.125) / 2.0, 1e-12);
  // Wide: normal with deviation 1/sqrt(width); its tail keeps its digits (scipy 1.16:
  // betainc(2047.5, 0.5, 1 - 0.1^2)).
  EXPECT_NEAR(statistics::chance_of_cosine(0.1, 4096) / 1.4090360238239e-10, 1.0, 1e-9);
  EXPECT_NEAR(statistics::chance_of_largest_cosine(0.5, 3, 3), 1.0 - 0.125, 1e-12);
  // Of one side: half of what lies beyond; on a sphere the largest of n has mean 1 - 2 / (n + 1),
  // by size n / (n + 1).
  EXPECT_NEAR(statistics::chance_of_cosine(0.5, 3, kOne), 0.25, 1e-12);
  EXPECT_NEAR(statistics::chance_of_cosine(-0.5, 3, kOne), 0.75, 1e-12);
  EXPECT_NEAR(statistics::chance_of_largest_cosine(0.5, 2, 3, kOne), 1.0 - 0.75 * 0.75, 1e-12);
  EXPECT_NEAR(statistics::largest_cosine_quantile(0.5, 1, 7, kOne), 0.0, 1e-12);
  for (const std::int64_t count : {1L, 2L, 9L, 1000L}) {
    const auto n = static_cast<double>(count);
    EXPECT_NEAR(statistics::expected_largest_cosine(count, 3), n / (n + 1.0), 1e-6);
    EXPECT_NEAR(statistics::expected_largest_cosine(count, 3, kOne), 1.0 - 2.0 / (n + 1.0), 1e-6);
  }
  EXPECT_TRUE(std::isnan(statistics::expected_largest_cosine(0, 100)));
  EXPECT_TRUE(std::isnan(statistics::largest_cosine_quantile(0.5, 0, 100)));
  EXPECT_TRUE(std::isnan(statistics::largest_cosine_quantile(0.5, 10, 1)));
}

TEST(LargestCosine, QuantilesAreTheInverse) {
  for (const std::int64_t count : {1L, 1000L, 50'000'000L}) {
    for (const double share : {0.05, 0.5, 0.95}) {
      const double c = statistics::largest_cosine_quantile(share, count, 7168);
      EXPECT_NEAR(1.0 - statistics::chance_of_largest_cosine(c, count, 7168), share, 1e-9);
    }
  }
}

/// The largest cosines of 1,000 draws of `count` directions, ascending, by size or of one side. A
/// direction's first coordinate is that of a normal vector over its norm; the rest of the norm is
/// chi-squared.
std::vector<double> drawn(std::int64_t count, std::int64_t width, statistics::CosineSides sides) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(count * 7919 + width));
  std::normal_distribution<double> normal;
  std::gamma_distribution<double> rest(0.5 * static_cast<double>(width - 1), 2.0);
  std::vector<double> largest;
  for (int draw = 0; draw < 1000; ++draw) {
    double best = -1.0;
    for (std::int64_t i = 0; i < count; ++i) {
      const double first = normal(engine);
      const double compared = sides == kOne ? first : std::abs(first);
      best = std::max(best, compared / std::sqrt(first * first + rest(engine)));
    }
    largest.push_back(best);
  }
  std::sort(largest.begin(), largest.end());
  return largest;
}

TEST(LargestCosine, StandsBesideDraws) {
  for (const auto& [count, width, sides] : {std::tuple(100L, 64L, statistics::CosineSides::kBoth),
                                            {1000L, 64L, kOne},
                                            {1000L, 4096L, statistics::CosineSides::kBoth}}) {
    const std::vector<double> largest = drawn(count, width, sides);
    // Of 1,000 draws the share below the median has the deviation 0.016, below 0.95 0.007.
    for (const double share : {0.5, 0.95}) {
      const double c = statistics::largest_cosine_quantile(share, count, width, sides);
      const auto below = std::lower_bound(largest.begin(), largest.end(), c) - largest.begin();
      EXPECT_NEAR(static_cast<double>(below) / 1000.0, share, share == 0.5 ? 0.065 : 0.028);
    }
    double mean = 0.0;
    for (const double one : largest) {
      mean += one / 1000.0;
    }
    // sqrt(2 ln count / width), the leading term, is 8 to 12 % above.
    EXPECT_NEAR(statistics::expected_largest_cosine(count, width, sides) / mean, 1.0, 0.01);
  }
}

}  // namespace
}  // namespace vindex::statistics::largest_cosine_test
