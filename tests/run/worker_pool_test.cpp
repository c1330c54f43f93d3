// The pool with a back end that computes nothing: order, memory, failure and stop are its only
// business.
#include <vindex/core/error.hpp>
#include <vindex/run/worker_pool.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

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

LoadedUnit loaded(const WorkUnit& unit) {
  LoadedUnit out;
  out.unit = &unit;
  return out;
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
      [](const WorkUnit& unit) -> LoadedUnit {
        if (unit.matrices.front() == 9) {
          throw OutOfMemory("staging", 1);
        }
        return loaded(unit);
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

}  // namespace
}  // namespace vindex::run
