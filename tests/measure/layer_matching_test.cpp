#include "measure/layer_statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace vindex::measure::layer_matching_test {
namespace {

TEST(LayerMatching, DepthsAreEveryFivePercent) {
  const std::vector<DepthMatch> matches = match_depths(26, 36);
  ASSERT_EQ(matches.size(), 21U);
  EXPECT_EQ(matches.front().a, 0U);
  EXPECT_EQ(matches.back().a, 25U);
  EXPECT_EQ(matches.back().b, 35U);
  // 15 %: 3.75 and 5.25; 55 %: 13.75 and 19.25; 50 %: 12.5 (halves up) and 17.5.
  EXPECT_DOUBLE_EQ(matches[3].depth, 0.15);
  EXPECT_EQ(matches[3].a, 4U);
  EXPECT_EQ(matches[3].b, 5U);
  EXPECT_EQ(matches[11].a, 14U);
  EXPECT_EQ(matches[11].b, 19U);
  EXPECT_EQ(matches[10].a, 13U);
  EXPECT_EQ(matches[10].b, 18U);
}

TEST(LayerMatching, OneLayerIsAtEveryDepthNoneAtNone) {
  for (const DepthMatch& match : match_depths(1, 3)) {
    EXPECT_EQ(match.a, 0U);
  }
  EXPECT_TRUE(match_depths(0, 3).empty());
  EXPECT_TRUE(match_depths(3, 0).empty());
}

std::vector<Adjacent> chain(const std::vector<double>& values, double error) {
  std::vector<Adjacent> out;
  for (const double value : values) {
    out.push_back({value, error});
  }
  return out;
}

TEST(Stages, FallsBelowTheThresholdAreCounted) {
  // Deviations from 0.95 without the breaks: .01 0 .01 .02 0; their median .01.
  const auto stages = count_stages(chain({0.96, 0.95, 0.94, 0.5, 0.97, 0.6, 0.95}, 0.001));
  ASSERT_TRUE(stages.has_value());
  EXPECT_DOUBLE_EQ(stages->median, 0.95);
  EXPECT_NEAR(stages->mad, 0.01, 1e-12);
  EXPECT_NEAR(stages->threshold, 0.95 - 0.044478, 1e-12);
  EXPECT_EQ(stages->count, 3);
  EXPECT_EQ(stages->breaks, (std::vector<std::size_t>{3, 5}));
}

// Two planted breaks among 19 neighbours that are nearly equal: by the MAD alone, which is 1e-6
// here, six more would stand out by less than anyone can know.
TEST(Stages, WhatIsWithinItsErrorIsNoBreak) {
  std::vector<double> values(19, 0.99);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] += 1e-6 * static_cast<double>(i % 3) - (i % 3 == 1 ? 1e-4 : 0.0);
  }
  values[6] = 0.8;
  values[12] = 0.7;
  const auto stages = count_stages(chain(values, 0.002));
  EXPECT_EQ(stages->count, 3);
  EXPECT_EQ(stages->breaks, (std::vector<std::size_t>{6, 12}));
  EXPECT_GT(count_stages(chain(values, 0.0))->count, 3);
  EXPECT_EQ(count_stages(chain(values, 0.2))->count, 1);
}

// Two breaks among the deviations make their median .02, and .89 is within 4.4 of it; without them
// it is .01, and .89 is a third.
TEST(Stages, TheMadIsTakenAgainWithoutTheBreaksThatItFound) {
  const auto stages =
      count_stages(chain({0.95, 0.96, 0.94, 0.96, 0.2, 0.94, 0.1, 0.89, 0.95}, 1e-4));
  ASSERT_TRUE(stages.has_value());
  EXPECT_DOUBLE_EQ(stages->median, 0.94);
  EXPECT_NEAR(stages->mad, 0.01, 1e-12);
  EXPECT_EQ(stages->breaks, (std::vector<std::size_t>{4, 6, 7}));
}

TEST(Stages, OneValueAndNone) {
  EXPECT_EQ(count_stages(chain({0.3}, 0.01))->count, 1);
  EXPECT_EQ(count_stages(chain({0.9, 0.9, 0.9, 0.1}, 0.01))->count, 2);
  EXPECT_FALSE(count_stages({}).has_value());
  EXPECT_FALSE(count_stages(chain({0.9, std::nan("")}, 0.01)).has_value());
  EXPECT_FALSE(count_stages(chain({0.9, 0.8}, std::nan(""))).has_value());
}

}  // namespace
}  // namespace vindex::measure::layer_matching_test
