// The k of a summary: by hand for shapes that models have, and its properties for all small ones.
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/var_at_k.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace vindex::statistics::informative_k_test {
namespace {

using MaybeK = std::optional<std::int32_t>;

MaybeK k_of(std::int64_t rows, std::int64_t cols) {
  return informative_k(std::min(rows, cols), null_metrics(rows, cols).var_at_k);
}

TEST(InformativeKTest, ShapesOfModels) {
  struct Case {
    std::int64_t rows, cols;
    MaybeK k;
  };
  const std::vector<Case> cases = {
      {7168, 2048, 64}, {384, 7168, 64}, {4096, 4096, 64}, {256, 256, 64}, {192, 256, 64},
      {512, 64, 32},    {64, 172, 16},   {64, 64, 16},     {32, 64, 8},    {16, 256, 8},
      {8, 64, 4},       {4, 1024, 2},    {3, 7, 1},        {2, 2, 1},      {2, 4096, 1},
      {1, 2048, {}},    {2048, 1, {}},   {1, 1, {}}};
  for (const Case& one : cases) {
    EXPECT_EQ(k_of(one.rows, one.cols), one.k) << one.rows << "x" << one.cols;
    EXPECT_EQ(k_of(one.cols, one.rows), one.k) << one.cols << "x" << one.rows;
  }
}

TEST(InformativeKTest, ItIsBelowTheShorterSideAndNoiseLeavesRoom) {
  for (std::int64_t p = 2; p < 300; p += 7) {
    for (const std::int64_t n : {p, 2 * p, 10 * p}) {
      const MetricValues nulls = null_metrics(p, n);
      const MaybeK k = informative_k(p, nulls.var_at_k);
      ASSERT_TRUE(k);
      EXPECT_LT(*k, p);
      EXPECT_LE(*k, kMaxInformativeK);
      for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
        if (kVarAtK[i] == *k && *k > 1) {
          EXPECT_LE(nulls.var_at_k[i], kMaxNoiseShare) << p << "x" << n;
        }
        // None larger would do.
        if (kVarAtK[i] > *k && kVarAtK[i] <= kMaxInformativeK && kVarAtK[i] < p) {
          EXPECT_GT(nulls.var_at_k[i], kMaxNoiseShare) << p << "x" << n;
        }
      }
    }
  }
}

TEST(InformativeKTest, UnknownNullsGiveNoK) {
  EXPECT_EQ(informative_k(64, MetricValues().var_at_k), MaybeK());
}

TEST(InformativeKTest, OneKForGroupsThatAreNear) {
  const auto common = [](std::vector<MaybeK> each) { return common_k(each); };
  EXPECT_EQ(common({64, 64}), 64);
  EXPECT_EQ(common({16, 8, 16}), 8);
  EXPECT_EQ(common({32, 8, {}}), 8);
  EXPECT_EQ(common({64, 8}), MaybeK());
  EXPECT_EQ(common({{}, {}}), MaybeK());
  EXPECT_EQ(common({}), MaybeK());
}

}  // namespace
}  // namespace vindex::statistics::informative_k_test
