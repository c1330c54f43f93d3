// Breaks in a chain of layers: by hand, within their error, on trends, at the ends.
#include "statistics/layers/stages.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::statistics::stages_test {
namespace {

std::vector<Adjacent> chain(const std::vector<double>& values, double error) {
  std::vector<Adjacent> out;
  for (const double value : values) {
    out.push_back({value, error});
  }
  return out;
}

using Breaks = std::vector<std::size_t>;

Breaks breaks_of(const std::vector<double>& values, double error) {
  const auto stages = count_stages(chain(values, error));
  EXPECT_EQ(stages->count, 1 + static_cast<std::int64_t>(stages->breaks.size()));
  return stages->breaks;
}

TEST(Stages, FallsBelowTheLimitsAreCounted) {
  const auto stages = count_stages(chain({0.96, 0.95, 0.94, 0.5, 0.97, 0.6, 0.95}, 0.001));
  ASSERT_TRUE(stages.has_value());
  EXPECT_DOUBLE_EQ(stages->median, 0.95);
  EXPECT_EQ(stages->count, 3);
  EXPECT_EQ(stages->breaks, (Breaks{3, 5}));
  // Without the breaks 0.94 has 0.955 (.95 .96) on its left and 0.96 (.97 .95) on its right, the
  // middle of which it is 0.0175 below. Deviations: 0.01, 0.005, 0.0175, 0.02, 0; their median .01.
  EXPECT_NEAR(stages->mad, 0.01, 1e-12);
  ASSERT_EQ(stages->limits.size(), 7U);
  // 0.5: .94 .95 .96 on the left, .97 .95 on the right.
  EXPECT_NEAR(stages->limits[3], 0.95 - 0.044478, 1e-12);
}

// Two planted breaks among 19 neighbours that are nearly equal: by the MAD alone, which is 1e-6
// here, others would stand out by less than anyone can know.
TEST(Stages, WhatIsWithinItsErrorIsNoBreak) {
  std::vector<double> values(19, 0.99);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += 1e-6 * static_cast<double>(i % 3) - (i % 3 == 1 ? 1e-4 : 0.0);
  }
  values[6] = 0.8;
  values[12] = 0.7;
  EXPECT_EQ(breaks_of(values, 0.002), (Breaks{6, 12}));
  EXPECT_TRUE(breaks_of(values, 0.2).empty());
}

// Two breaks among the deviations make their median larger, and .89 is within the scatter; without
// them it is a third.
TEST(Stages, TheMadIsTakenAgainWithoutTheBreaksThatItFound) {
  EXPECT_EQ(breaks_of({0.95, 0.96, 0.94, 0.96, 0.2, 0.94, 0.1, 0.89, 0.95}, 1e-4),
            (Breaks{4, 6, 7}));
}

// x_(l+1) = x_l + e: layers grow more alike with depth, from any size of x_0, and none is a stage.
TEST(Stages, NeighboursThatRiseOrFallSmoothlyAreOneStage) {
  for (const double start : {1e-6, 0.1, 0.3, 1.0, 10.0}) {
    std::vector<double> rising;
    for (int layer = 0; layer < 30; ++layer) {
      const double variance = start + layer;
      rising.push_back(variance / (variance + 1.0));
    }
    EXPECT_TRUE(breaks_of(rising, 1e-6).empty()) << start;
    EXPECT_TRUE(breaks_of({rising.rbegin(), rising.rend()}, 1e-6).empty()) << start;
    rising[10] = 0.7;
    EXPECT_EQ(breaks_of(rising, 1e-3), Breaks{10}) << start;
  }
  // A change of level is none either: on one side there is what is as low.
  EXPECT_TRUE(breaks_of({0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5}, 0.01).empty());
}

TEST(Stages, NeighbouringBreaksAndEnds) {
  std::vector<double> values(15, 0.95);
  values[6] = values[7] = values[8] = 0.5;
  EXPECT_EQ(breaks_of(values, 0.01), (Breaks{6, 7, 8}));
  EXPECT_EQ(breaks_of({0.9, 0.9, 0.9, 0.1}, 0.01), Breaks{3});
  EXPECT_EQ(breaks_of({0.1, 0.9, 0.9, 0.9}, 0.01), Breaks{0});
  // An end is taken from values that have errors themselves: 0.01 sqrt(1 + 16 + 9), three times.
  EXPECT_TRUE(breaks_of({0.8, 0.9, 0.9, 0.9}, 0.01).empty());
}

TEST(Stages, OneValueAndNone) {
  EXPECT_EQ(count_stages(chain({0.3}, 0.01))->count, 1);
  EXPECT_TRUE(std::isnan(count_stages(chain({0.3}, 0.01))->limits.front()));
  EXPECT_EQ(count_stages(chain({0.9, 0.1}, 0.01))->count, 1);
  EXPECT_FALSE(count_stages({}).has_value());
  EXPECT_FALSE(count_stages(chain({0.9, std::nan("")}, 0.01)).has_value());
  EXPECT_FALSE(count_stages(chain({0.9, 0.8}, std::nan(""))).has_value());
}

}  // namespace
}  // namespace vindex::statistics::stages_test
