// The plan of a route, by tables.
#include "cpu/plan/svd_plan.hpp"

#include "cpu/route/plan_svd.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace vindex::cpu::svd_plan_test {
namespace {

struct Row {
  std::int64_t rows, cols;
  decode::ElementType type;
  bool row_slabs;
  std::int64_t chunk;
};

TEST(SvdPlan, CutsTheLongSideAtBlocks) {
  using decode::ElementType;
  for (const Row& row : {Row{7168, 2048, ElementType::kBF16, true, 256},
                         {2048, 7168, ElementType::kBF16, false, 256},
                         {2048, 7168, ElementType::kQ4_K, false, 256},
                         {4096, 4096, ElementType::kQ8_0, true, 256},
                         {100, 40, ElementType::kF32, true, 100},
                         {1, 999, ElementType::kF32, false, 256}}) {
    const auto encoding = decode::plain_encoding(row.type);
    const SvdPlan plan = plan_svd({.rows = row.rows, .cols = row.cols, .encoding = &encoding});
    EXPECT_EQ(plan.row_slabs, row.row_slabs);
    EXPECT_EQ(plan.chunk, row.chunk);
    EXPECT_EQ(plan.short_side, std::min(row.rows, row.cols));
    EXPECT_EQ(plan.long_side, std::max(row.rows, row.cols));
    EXPECT_EQ(plan.slab, std::min<std::int64_t>(1024, plan.long_side));
    EXPECT_FALSE(plan.keep_decoded);
  }
}

TEST(SvdPlan, ModeAndRouteDecide) {
  const auto encoding = decode::plain_encoding(decode::ElementType::kF32);
  const auto route = [&](SpectrumMode mode, const char* wanted) {
    MeasureOptions options;
    options.mode = mode;
    options.svd_route = wanted;
    return plan_svd({.rows = 50, .cols = 20, .encoding = &encoding, .options = options}).route;
  };
  EXPECT_EQ(route(SpectrumMode::kDefault, "auto"), SvdRoute::kGram32);
  EXPECT_EQ(route(SpectrumMode::kStrict, "library"), SvdRoute::kGram64);
  EXPECT_EQ(route(SpectrumMode::kDefault, "qr"), SvdRoute::kQr);
  EXPECT_THROW(route(SpectrumMode::kDefault, "bogus"), UsageError);
}

TEST(SvdPlan, NeverExceedsItsLimitAndKeepsChunksAlike) {
  const auto encoding = decode::plain_encoding(decode::ElementType::kBF16);
  SvdPlanRequest request{.rows = 2048, .cols = 7168, .encoding = &encoding, .in_memory = false};
  const SvdPlan free = plan_svd(request);
  EXPECT_TRUE(free.keep_decoded);
  for (std::uint64_t limit = free.min_workspace_bytes; limit < free.workspace_bytes + 1000;
       limit += 5'000'000) {
    request.workspace_limit = limit;
    const SvdPlan plan = plan_svd(request);
    EXPECT_LE(plan.workspace_bytes, limit);
    EXPECT_EQ(plan.chunk, free.chunk);
    EXPECT_EQ(plan.slab % 1024, 0);
  }
  request.workspace_limit = free.min_workspace_bytes - 1;
  EXPECT_THROW(plan_svd(request), OutOfMemory);
}

}  // namespace
}  // namespace vindex::cpu::svd_plan_test
