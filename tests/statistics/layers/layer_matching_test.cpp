// Layers of two models at the same relative depth, by hand.
#include "statistics/layers/layer_statistics.hpp"

#include <gtest/gtest.h>

namespace vindex::statistics::layer_matching_test {
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

}  // namespace
}  // namespace vindex::statistics::layer_matching_test
