// The pool with units of nothing: order, memory, failure and stop are its only business.
#include "engine/run/worker_pool.hpp"

#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace vindex::engine::worker_pool_test {
namespace {

/// Calls at once of two devices.
const std::vector<std::int32_t> kTwoDevices = {2, 1};

std::vector<WorkUnit> hundred_units() {
  std::vector<WorkUnit> units(100);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].rows = {static_cast<std::int64_t>(i)};
    units[i].memory_bytes = 10 + i % 7;
  }
  return units;
}

/// A unit without bytes that keeps its lease.
class BareUnit final : public LoadedUnit {
 public:
  BareUnit(const WorkUnit& work, std::shared_ptr<MemoryLease> lease)
      : LoadedUnit(work), lease_(std::move(lease)) {}

 private:
  std::shared_ptr<MemoryLease> lease_;
};

std::shared_ptr<LoadedUnit> loaded(const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
  return std::make_shared<BareUnit>(unit, std::move(lease));
}

TEST(WorkerPoolTest, EveryUnitIsProcessedOnceByAllDevicesTogether) {
  const auto units = hundred_units();
  std::mutex mutex;
  std::multiset<std::int64_t> seen;
  std::atomic<bool> finished{false};
  WorkerPool pool(
      units, 40, kTwoDevices, loaded,
      [&](LoadedUnit& unit, std::size_t) {
        const std::lock_guard lock(mutex);
        seen.insert(unit.unit->rows.front());
      },
      [&] { finished = true; });
  pool.join();
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 100U);
  EXPECT_TRUE(finished);
  EXPECT_EQ(pool.failure(), nullptr);
}

TEST(WorkerPoolTest, AFailureEndsThePoolAndIsKept) {
  const auto units = hundred_units();
  std::atomic<int> processed{0};
  WorkerPool pool(
      units, 40, kTwoDevices, loaded,
      [&](LoadedUnit& unit, std::size_t) {
        if (unit.unit->rows.front() == 5) {
          throw DeviceError("E-CUDA", "the device fell off the bus");
        }
        ++processed;
      },
      [] {});
  pool.join();
  ASSERT_NE(pool.failure(), nullptr);
  EXPECT_THROW(std::rethrow_exception(pool.failure()), DeviceError);
  EXPECT_LT(processed, 99);
}

TEST(WorkerPoolTest, AFailingReaderEndsThePool) {
  const auto units = hundred_units();
  WorkerPool pool(
      units, 40, kTwoDevices,
      [](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        if (unit.rows.front() == 9) {
          throw OutOfMemory("staging", 1);
        }
        return loaded(unit, std::move(lease));
      },
      [](LoadedUnit&, std::size_t) {}, [] {});
  pool.join();
  EXPECT_THROW(std::rethrow_exception(pool.failure()), OutOfMemory);
}

TEST(WorkerPoolTest, StoppingDoesNotWaitForTheRest) {
  const auto units = hundred_units();
  std::atomic<int> processed{0};
  std::atomic<bool> is_stopped{false};
  WorkerPool pool(
      units, 40, kTwoDevices, loaded,
      [&](LoadedUnit&, std::size_t) {
        ++processed;
        is_stopped.wait(false);
      },
      [] {});
  pool.stop();
  is_stopped = true;
  is_stopped.notify_all();
  pool.join();
  EXPECT_LT(processed, 50);
}

/// Waits for a stop as a slab function does.
class WaitingUnit final : public LoadedUnit {
 public:
  using LoadedUnit::LoadedUnit;
  void wait() const {
    while (true) {
      throw_if_stopped(stop_token());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
};

TEST(WorkerPoolTest, StoppingWakesWhoWaitsForBytesAndIsNoFailure) {
  const auto units = hundred_units();
  std::atomic<int> waiting{0};
  WorkerPool pool(
      units, 1000, kTwoDevices,
      [](const WorkUnit& unit, const std::shared_ptr<MemoryLease>&) {
        return std::make_shared<WaitingUnit>(unit);
      },
      [&](LoadedUnit& unit, std::size_t) {
        ++waiting;
        static_cast<WaitingUnit&>(unit).wait();
      },
      [] {});
  while (waiting < 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  pool.stop();
  pool.join();
  EXPECT_EQ(pool.failure(), nullptr);
}

/// A source that has one unit, and then none until it is told to end.
TEST(WorkerPoolTest, AFailureEndsTheWaitingForUnitsThatMayStillCome) {
  const auto units = hundred_units();
  std::mutex mutex;
  std::condition_variable changed;
  bool given = false;
  bool ended = false;
  WorkerPool pool(
      WorkerPool::Source{.next = [&]() -> const WorkUnit* {
                           std::unique_lock lock(mutex);
                           if (!std::exchange(given, true)) {
                             return units.data();
                           }
                           changed.wait(lock, [&] { return ended; });
                           return nullptr;
                         },
                         .stop =
                             [&] {
                               const std::lock_guard lock(mutex);
                               ended = true;
                               changed.notify_all();
                             }},
      40, kTwoDevices, loaded,
      [](LoadedUnit&, std::size_t) { throw DeviceError("E-CUDA", "the device fell off the bus"); },
      [] {});
  pool.join();
  EXPECT_THROW(std::rethrow_exception(pool.failure()), DeviceError);
}

/// Three devices, the first ten times as fast as the last: it takes the most units, and all end
/// within one unit of the slowest of each other, whatever the mixture of sizes.
TEST(WorkerPoolTest, FasterDevicesTakeMoreOfTheWork) {
  std::vector<WorkUnit> units = hundred_units();
  constexpr std::array<int, 3> kMicroseconds = {500, 2000, 5000};
  std::mutex mutex;
  std::array<int, 3> taken = {};
  WorkerPool pool(
      units, 100, {1, 1, 1}, loaded,
      [&](LoadedUnit& unit, std::size_t device) {
        const auto size = static_cast<int>(unit.unit->rows.front()) % 3 + 1;
        std::this_thread::sleep_for(std::chrono::microseconds(kMicroseconds.at(device) * size));
        const std::lock_guard lock(mutex);
        ++taken.at(device);
      },
      [] {});
  pool.join();
  EXPECT_EQ(taken[0] + taken[1] + taken[2], 100);
  EXPECT_GT(taken[0], taken[1]);
  EXPECT_GT(taken[1], taken[2]);
  EXPECT_GT(taken[2], 0);
}

TEST(WorkerPoolTest, NeverMoreThanTheBudgetIsLeased) {
  const auto units = hundred_units();
  std::atomic<std::uint64_t> now{0}, worst{0};
  WorkerPool pool(
      units, 35, kTwoDevices,
      [&](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        const std::uint64_t sum = now += unit.memory_bytes;
        worst = std::max(worst.load(), sum);
        return loaded(unit, std::move(lease));
      },
      [&](LoadedUnit& unit, std::size_t) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        now -= unit.unit->memory_bytes;
      },
      [] {});
  pool.join();
  EXPECT_LE(worst, 35U);
  EXPECT_GT(worst, 16U);
}

}  // namespace
}  // namespace vindex::engine::worker_pool_test
