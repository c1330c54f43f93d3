// Tasks on several threads: each once, in ascending order of beginning, the first error thrown.
#include "core/process/parallel.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace vindex::parallel_test {
namespace {

TEST(ParallelTest, EveryIndexOnceAndWorkersWithinTheirNumber) {
  for (const std::size_t threads : {0U, 1U, 3U, 8U}) {
    std::vector<std::atomic<int>> calls(1000);
    for_each_index(calls.size(), threads, [&](std::size_t worker, std::size_t i) {
      EXPECT_LT(worker, std::max<std::size_t>(threads, 1));
      ++calls[i];
    });
    for (const auto& count : calls) {
      EXPECT_EQ(count, 1);
    }
  }
  for_each_index(0, 4, [](std::size_t, std::size_t) { FAIL(); });
}

TEST(ParallelTest, TheErrorOfTheSmallestIndexIsThrownWhateverEndsFirst) {
  for (int turn = 0; turn < 50; ++turn) {
    std::string error;
    try {
      for_each_index(20, 8, [&](std::size_t, std::size_t i) {
        if (i == 3) {  // the first that is wrong is the last to be found
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (i >= 3) {
          throw std::runtime_error(std::to_string(i));
        }
      });
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    EXPECT_EQ(error, "3");
  }
}

TEST(ParallelTest, ThreadsAreThoseWantedAndFewWhereTasksAreLarge) {
  EXPECT_GE(usable_cores(), 1);
  EXPECT_EQ(thread_count(0, 1), 1U);
  EXPECT_EQ(thread_count(0, 3), 3U);
  EXPECT_EQ(thread_count(0, 100), 8U);
  EXPECT_EQ(thread_count(std::uint64_t{600} << 20U, 8), 1U);
}

}  // namespace
}  // namespace vindex::parallel_test
