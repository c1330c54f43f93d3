// The memory budget: never exceeded, first come first served, woken by a stop.
#include "engine/plan/memory_budget.hpp"

#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vindex::engine::memory_budget_test {
namespace {

TEST(RequireBudget, SaysWhatNeedsHowMuch) {
  require_budget(100, "blk.0", 100);
  try {
    require_budget(100, "blk.0", 101);
    FAIL() << "a budget that is too small";
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(
        error.what(),
        "E-BUDGET: --ram-budget of 100 bytes is too small: blk.0 needs 101 bytes at least");
  }
}

TEST(MemoryBudgetTest, NeverMoreThanTheTotalIsOut) {
  MemoryBudget budget(100);
  std::atomic<int> out{0};
  std::atomic<int> worst{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int bytes = 20 + (t * 31 + i * 7) % 60;
        ASSERT_TRUE(budget.acquire(static_cast<std::uint64_t>(bytes)));
        const int now = out += bytes;
        int seen = worst;
        while (now > seen && !worst.compare_exchange_weak(seen, now)) {
        }
        out -= bytes;
        budget.release(static_cast<std::uint64_t>(bytes));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_LE(worst, 100);
  EXPECT_GT(worst, 60);
}

/// Returns once the thread of this process waits for something, as it does in acquire().
void await_sleep_of(const std::atomic<pid_t>& thread) {
  std::string state;
  while (state != "S") {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number;
    std::string name;
    stat >> number >> name >> state;
  }
}

TEST(MemoryBudgetTest, ALargeRequestIsNotStarvedBySmallOnesBehindIt) {
  MemoryBudget budget(10);
  ASSERT_TRUE(budget.acquire(6));
  std::atomic<bool> large_served{false};
  std::atomic<pid_t> large_thread{0};
  std::thread large([&] {
    large_thread = ::gettid();
    ASSERT_TRUE(budget.acquire(10));
    large_served = true;
    budget.release(10);
  });
  await_sleep_of(large_thread);
  std::atomic<bool> large_was_first{false};
  std::thread small([&] {
    ASSERT_TRUE(budget.acquire(1));  // would fit at once, but it came later
    large_was_first = large_served.load();
    budget.release(1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(large_served);
  budget.release(6);
  large.join();
  small.join();
  EXPECT_TRUE(large_was_first);
}

TEST(MemoryBudgetTest, StopWakesWaiters) {
  MemoryBudget budget(1);
  ASSERT_TRUE(budget.acquire(1));
  std::thread waiter([&] { EXPECT_FALSE(budget.acquire(1)); });
  budget.stop();
  waiter.join();
}

TEST(MemoryBudgetTest, MoreThanTheTotalIsAProgrammingError) {
  MemoryBudget budget(5);
  EXPECT_THROW(budget.acquire(6), Error);
}

}  // namespace
}  // namespace vindex::engine::memory_budget_test
