// How far values lie from the others of their group, and how far the farthest lies by chance.
#include "measure/robust_scale.hpp"

#include "measure/metrics.hpp"
#include "measure/random_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::measure {
namespace {

TEST(RobustScaleTest, OneFarValueDoesNotMoveTheOthers) {
  const std::vector<double> values = {1.0, 2.0, 3.0, 4.0, 1000.0};
  EXPECT_DOUBLE_EQ(robust_scale(values, 3.0), 1.4826);
  const std::vector<double> scores = robust_scores(values);
  EXPECT_DOUBLE_EQ(scores[2], 0.0);
  EXPECT_DOUBLE_EQ(scores[4], 997.0 / 1.4826);
}

TEST(RobustScaleTest, EqualValuesHaveNoScale) {
  EXPECT_EQ(robust_scores({7.0, 7.0, 7.0}), (std::vector<double>{0.0, 0.0, 0.0}));
  // More than half equal: the mean deviation.
  EXPECT_DOUBLE_EQ(robust_scale({0.0, 0.0, 0.0, 4.0}, 0.0), 1.2533);
}

TEST(RobustScaleTest, OneGroupOfNoiseInTwentyHasAnOutlier) {
  EXPECT_TRUE(std::isnan(largest_score_q95(2)));
  for (const std::int64_t count : {8, 64}) {
    const double limit = largest_score_q95(count);
    constexpr int kGroups = 4000;
    int beyond = 0;
    std::vector<double> values(static_cast<std::size_t>(count));
    for (int group = 0; group < kGroups; ++group) {
      DrawStream stream(1234, static_cast<std::uint64_t>(group));
      std::generate(values.begin(), values.end(), [&] { return 5.0 + 2.0 * stream.normal(); });
      const std::vector<double> scores = robust_scores(values);
      beyond += std::any_of(scores.begin(), scores.end(),
                            [&](double score) { return std::abs(score) > limit; })
                    ? 1
                    : 0;
    }
    // 200 are expected; the limit, of 2,000 draws, is itself uncertain.
    EXPECT_NEAR(beyond, 200, 70) << count;
  }
}

}  // namespace
}  // namespace vindex::measure
