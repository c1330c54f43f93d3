// How far values lie from the others of their group, and how far the farthest lies by chance.
#include "statistics/samples/robust_scale.hpp"

#include "statistics/samples/quantile.hpp"
#include "statistics/samples/random_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::statistics {
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

TEST(RobustScaleTest, OneGroupInTwentyHasAnOutlierByItsNearest) {
  // Two experts share the largest cosine: judged as values of their own, one group in ten or five
  // had an outlier.
  EXPECT_TRUE(std::isnan(largest_nearest_q95(2)));
  for (const std::int64_t count : {5, 8, 16, 48}) {
    const double limit = largest_nearest_q95(count);
    const auto side = static_cast<std::size_t>(count);
    const int groups = count <= 16 ? 4000 : 1500;
    int beyond = 0;
    for (int group = 0; group < groups; ++group) {
      DrawStream stream(4321, static_cast<std::uint64_t>(group));
      std::vector<double> pairs;
      std::vector<double> nearest(side, -1.0);
      for (std::size_t i = 0; i < side; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          pairs.push_back(0.2 + 0.01 * stream.normal());
          nearest[i] = std::max(nearest[i], pairs.back());
          nearest[j] = std::max(nearest[j], pairs.back());
        }
      }
      const double median = quantile(nearest, 0.5);
      const double scale = robust_scale(pairs, quantile(pairs, 0.5));
      beyond += std::any_of(nearest.begin(), nearest.end(),
                            [&](double value) { return std::abs(value - median) > limit * scale; })
                    ? 1
                    : 0;
    }
    EXPECT_NEAR(static_cast<double>(beyond) / groups, 0.05, 0.0175) << count;
  }
}

}  // namespace
}  // namespace vindex::statistics
