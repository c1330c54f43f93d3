// Owns the threads of a run: readers that load units ahead as far as the memory budget allows, and
// one consumer per concurrent call of every back end. It knows nothing of spectra, so another kind
// of job (pairs of matrices) needs only another `process`.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/run/bounded_queue.hpp>
#include <vindex/run/matrix_loader.hpp>
#include <vindex/run/memory_budget.hpp>
#include <vindex/run/work_plan.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::run {

/// Threads start in the constructor. `units` and `backends` must outlive the pool.
class WorkerPool {
 public:
  using Load = std::function<LoadedUnit(const WorkUnit&)>;
  /// Called on a consumer's thread; an exception out of it ends the pool (failure()).
  using Process = std::function<void(LoadedUnit&, measure::Backend&)>;

  WorkerPool(const std::vector<WorkUnit>& units, std::uint64_t ram_budget,
             const std::vector<std::unique_ptr<measure::Backend>>& backends, Load load,
             Process process, std::function<void()> finished);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// No further unit is begun; those in hand are not waited for.
  void stop();
  /// Waits for every thread.
  void join();
  /// Lets the threads run on without an owner; the pool must then live as long as the process.
  void abandon();
  /// The first exception that ended the pool, or null.
  std::exception_ptr failure();

 private:
  void read_units();
  void consume(measure::Backend& backend);
  void fail(std::exception_ptr error);

  const std::vector<WorkUnit>& units_;
  MemoryBudget budget_;
  Load load_;
  Process process_;
  std::function<void()> finished_;
  BoundedQueue<LoadedUnit> queue_;
  std::atomic<std::size_t> next_unit_{0};
  std::atomic<std::int32_t> readers_left_{0};
  std::atomic<std::int32_t> consumers_left_{0};
  std::atomic<bool> stopped_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::mutex order_mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace vindex::run
