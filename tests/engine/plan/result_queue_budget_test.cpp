// Memory between finished rows and the file: small where the budget is, and never beyond it.
#include "engine/plan/memory_budget.hpp"
#include "results/runs/run_store.hpp"

#include <gtest/gtest.h>

namespace vindex::engine::result_queue_budget_test {
namespace {

constexpr std::uint64_t kMiB = 1U << 20U;

TEST(ResultQueueBudgetTest, ALargeBudgetGetsFullQueuesAndASmallOneSmallOnes) {
  const ResultQueueBudget large = result_queue_budget(64 * 1024 * kMiB, 1000, 16384);
  EXPECT_EQ(large.queue_bytes, 24 * kMiB);
  EXPECT_EQ(large.pending_bytes, results::kMaxPendingBytes);
  const ResultQueueBudget small = result_queue_budget(64 * kMiB, 1000, 16384);
  EXPECT_EQ(small.queue_bytes, kMiB);
  EXPECT_LE(small.bytes, 16 * kMiB);
  EXPECT_GT(small.bytes, 1000 * results::kStoredRowBytes);
}

TEST(ResultQueueBudgetTest, ARowLargerThanAQueueStillPasses) {
  const std::uint64_t row = 80 * kMiB;  // vectors
  EXPECT_GE(result_queue_budget(256 * kMiB, 1, row).bytes, 5 * row);
}

TEST(ResultQueueBudgetTest, TheLeastBudgetIsTheLeast) {
  for (const std::uint64_t units :
       {std::uint64_t{0}, std::uint64_t{1}, 7 * kMiB, 900 * kMiB, 90 * 1024 * kMiB}) {
    for (const std::int64_t rows : {1, 500, 69120}) {
      for (const std::uint64_t row : {std::uint64_t{0}, std::uint64_t{16384}, 40 * kMiB}) {
        const std::uint64_t least = budget_for(units, rows, row);
        EXPECT_GE(least, units + result_queue_budget(least, rows, row).bytes);
        EXPECT_LT(least - 1, units + result_queue_budget(least - 1, rows, row).bytes);
      }
    }
  }
}

}  // namespace
}  // namespace vindex::engine::result_queue_budget_test
