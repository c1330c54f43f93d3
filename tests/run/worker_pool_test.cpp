// The pool with a back end that computes nothing: order, memory, failure and stop are its only
// business.
#include <vindex/core/error.hpp>
#include <vindex/run/worker_pool.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace vindex::run {
namespace {

class IdleBackend final : public measure::Backend {
 public:
  explicit IdleBackend(std::int32_t calls) : calls_(calls) {}
  measure::BackendInfo info() const override { return {}; }
  measure::BackendLimits limits() const override {
    return {.concurrent_calls = calls_, .batch = 1, .device_bytes = 0};
  }
  std::unique_ptr<measure::StagingBuffer> make_staging(std::size_t /*bytes*/) override {
    return nullptr;
  }
  std::uint64_t workspace_bytes(const decode::Encoding& /*encoding*/, std::int64_t /*rows*/,
                                std::int64_t /*cols*/, const measure::MeasureOptions& /*options*/,
                                bool /*least*/) const override {
    return 0;
  }
  void measure(std::span<measure::MatrixInput* const> /*batch*/,
               const measure::MeasureOptions& /*options*/, std::uint64_t /*workspace_limit*/,
               std::span<measure::MatrixReport> /*out*/) override {}
  void decode(const decode::EncodedMatrix& /*matrix*/, std::span<float> /*out*/) override {}

 private:
  std::int32_t calls_;
};

std::vector<std::unique_ptr<measure::Backend>> two_devices() {
  std::vector<std::unique_ptr<measure::Backend>> backends;
  backends.push_back(std::make_unique<IdleBackend>(2));
  backends.push_back(std::make_unique<IdleBackend>(1));
  return backends;
}

std::vector<WorkUnit> hundred_units() {
  std::vector<WorkUnit> units(100);
  for (std::size_t i = 0; i < units.size(); ++i) {
    units[i].matrices = {static_cast<std::int64_t>(i)};
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
  const auto backends = two_devices();
  std::mutex mutex;
  std::multiset<std::int64_t> seen;
  std::atomic<bool> finished{false};
  WorkerPool pool(
      units, 40, backends, loaded,
      [&](LoadedUnit& unit, measure::Backend&) {
        const std::lock_guard lock(mutex);
        seen.insert(unit.unit->matrices.front());
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
  const auto backends = two_devices();
  std::atomic<int> processed{0};
  WorkerPool pool(
      units, 40, backends, loaded,
      [&](LoadedUnit& unit, measure::Backend&) {
        if (unit.unit->matrices.front() == 5) {
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
  const auto backends = two_devices();
  WorkerPool pool(
      units, 40, backends,
      [](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        if (unit.matrices.front() == 9) {
          throw OutOfMemory("staging", 1);
        }
        return loaded(unit, std::move(lease));
      },
      [](LoadedUnit&, measure::Backend&) {}, [] {});
  pool.join();
  EXPECT_THROW(std::rethrow_exception(pool.failure()), OutOfMemory);
}

TEST(WorkerPoolTest, StoppingDoesNotWaitForTheRest) {
  const auto units = hundred_units();
  const auto backends = two_devices();
  std::atomic<int> processed{0};
  WorkerPool pool(
      units, 40, backends, loaded,
      [&](LoadedUnit&, measure::Backend&) {
        ++processed;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      },
      [] {});
  pool.stop();
  pool.join();
  EXPECT_LT(processed, 50);
}

/// Waits for a stop as a slab function does.
class WaitingUnit final : public LoadedUnit {
 public:
  using LoadedUnit::LoadedUnit;
  void stop() override { stopped_.store(true); }
  void wait() const {
    while (!stopped_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    throw RunStopped{};
  }

 private:
  std::atomic<bool> stopped_{false};
};

TEST(WorkerPoolTest, StoppingWakesWhoWaitsForBytesAndIsNoFailure) {
  const auto units = hundred_units();
  const auto backends = two_devices();
  std::atomic<int> waiting{0};
  WorkerPool pool(
      units, 1000, backends,
      [](const WorkUnit& unit, const std::shared_ptr<MemoryLease>&) {
        return std::make_shared<WaitingUnit>(unit);
      },
      [&](LoadedUnit& unit, measure::Backend&) {
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

/// Three devices, the first ten times as fast as the last: it takes the most units, and all end
/// within one unit of the slowest of each other, whatever the mixture of sizes.
TEST(WorkerPoolTest, FasterDevicesTakeMoreOfTheWork) {
  std::vector<WorkUnit> units = hundred_units();
  std::vector<std::unique_ptr<measure::Backend>> backends;
  for (int i = 0; i < 3; ++i) {
    backends.push_back(std::make_unique<IdleBackend>(1));
  }
  const std::map<const measure::Backend*, int> microseconds = {
      {backends[0].get(), 500}, {backends[1].get(), 2000}, {backends[2].get(), 5000}};
  std::mutex mutex;
  std::map<const measure::Backend*, int> taken;
  WorkerPool pool(
      units, 100, backends, loaded,
      [&](LoadedUnit& unit, measure::Backend& backend) {
        const auto size = static_cast<int>(unit.unit->matrices.front()) % 3 + 1;
        std::this_thread::sleep_for(std::chrono::microseconds(microseconds.at(&backend) * size));
        const std::lock_guard lock(mutex);
        ++taken[&backend];
      },
      [] {});
  pool.join();
  EXPECT_EQ(taken[backends[0].get()] + taken[backends[1].get()] + taken[backends[2].get()], 100);
  EXPECT_GT(taken[backends[0].get()], taken[backends[1].get()]);
  EXPECT_GT(taken[backends[1].get()], taken[backends[2].get()]);
  EXPECT_GT(taken[backends[2].get()], 0);
}

TEST(WorkerPoolTest, NeverMoreThanTheBudgetIsLeased) {
  const auto units = hundred_units();
  const auto backends = two_devices();
  std::atomic<std::uint64_t> now{0}, worst{0};
  WorkerPool pool(
      units, 35, backends,
      [&](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        const std::uint64_t sum = now += unit.memory_bytes;
        worst = std::max(worst.load(), sum);
        return loaded(unit, std::move(lease));
      },
      [&](LoadedUnit& unit, measure::Backend&) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        now -= unit.unit->memory_bytes;
      },
      [] {});
  pool.join();
  EXPECT_LE(worst, 35U);
  EXPECT_GT(worst, 16U);
}

}  // namespace
}  // namespace vindex::run
