#include <vindex/measure/layer_matching.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace vindex::measure {
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

TEST(Stages, FallsBelowTheThresholdAreCounted) {
  // Median 0.95, deviations 0.01 0.00 0.01 0.45 0.02 0.35 0.00: MAD 0.01.
  const auto stages = count_stages({0.96, 0.95, 0.94, 0.5, 0.97, 0.6, 0.95});
  ASSERT_TRUE(stages.has_value());
  EXPECT_DOUBLE_EQ(stages->median, 0.95);
  EXPECT_NEAR(stages->mad, 0.01, 1e-12);
  EXPECT_NEAR(stages->threshold, 0.95 - 0.044478, 1e-12);
  EXPECT_EQ(stages->count, 3);
}

TEST(Stages, WithoutSpreadThereIsOne) {
  EXPECT_EQ(count_stages({0.9, 0.9, 0.9, 0.1})->count, 1);
  EXPECT_EQ(count_stages({0.3})->count, 1);
  EXPECT_FALSE(count_stages({}).has_value());
  EXPECT_FALSE(count_stages({std::nan("")}).has_value());
}

}  // namespace
}  // namespace vindex::measure
