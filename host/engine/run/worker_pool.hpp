// Owns the threads of a run: one that begins units in the order of the plan as far as the memory
// budget allows, and one consumer per concurrent call of every device. A free one takes the
// next unit, so devices of different speed share the work as they can. It knows no job: what a unit
// becomes is `process`.
//
// Also owns staging memory between units: a buffer that one unit is done with is the next one's, so
// that the system need not clear its pages again for every unit. What is kept is bounded and no
// part of the budget that units share: the runner sets it aside.
#pragma once

#include "backend/backend.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/plan/work_plan.hpp"
#include "engine/units/bounded_queue.hpp"
#include "engine/units/loaded_unit.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace vindex::engine {

/// Threads start in the constructor. `units` must outlive the pool.
class WorkerPool {
 public:
  /// Begins to load a unit whose memory was acquired; on the pool's own thread, in the plan's
  /// order.
  using Load =
      std::function<std::shared_ptr<LoadedUnit>(const WorkUnit&, std::shared_ptr<MemoryLease>)>;
  /// Where units come from.
  struct Source {
    /// The next unit to load, or null at the end; may wait. On the pool's own thread.
    std::function<const WorkUnit*()> next;
    /// Ends that waiting: from then on there are no more. From any thread.
    std::function<void()> stop = [] {};
  };
  /// Called on a consumer's thread; an exception out of it ends the pool (failure()).
  using Process = std::function<void(LoadedUnit&, std::size_t device)>;

  /// `calls`: per device, how many units it takes at once. `finished` is called by the last
  /// consumer, when nothing more will be processed. Where the system has fewer threads to give, one
  /// consumer is enough; Error E-THREADS (70) where there is none.
  WorkerPool(const std::vector<WorkUnit>& units, std::uint64_t ram_budget,
             const std::vector<std::int32_t>& calls, Load load, Process process,
             std::function<void()> finished);
  /// The same with units that come one by one.
  WorkerPool(Source source, std::uint64_t ram_budget, const std::vector<std::int32_t>& calls,
             Load load, Process process, std::function<void()> finished);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// How many there are: fewer than asked for where the system gave no more threads.
  std::int32_t consumers() const { return consumers_; }
  /// No further unit is begun, and those in work are told to end (LoadedUnit::stop()); join() waits
  /// for that.
  void stop();
  /// Ends the pool with `error` as its failure.
  void fail(std::exception_ptr error);
  /// Waits for every thread.
  void join();
  /// The first exception that ended the pool, or null.
  std::exception_ptr failure();

 private:
  using Unit = std::shared_ptr<LoadedUnit>;
  void begin_units(std::size_t ahead);
  void consume(std::size_t device);
  void leave();

  Source source_;
  std::shared_ptr<MemoryBudget> budget_;
  Load load_;
  Process process_;
  std::function<void()> finished_;
  BoundedQueue<Unit> queue_;
  std::int32_t consumers_ = 0;
  std::atomic<std::int32_t> consumers_left_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::set<Unit> begun_;  ///< to be stopped
  std::vector<std::jthread> threads_;
};

/// Thread-safe. Buffers may outlive it.
class StagingPool {
 public:
  /// Keeps up to `limit_bytes` of buffers that nobody uses; `make` makes those that are lacking.
  StagingPool(MakeStaging make, std::uint64_t limit_bytes);

  /// A buffer of `bytes`, kept or new; its destructor gives it back. Errors: those of `make`.
  std::unique_ptr<StagingBuffer> take(std::size_t bytes);
  /// Waits until nothing is handed out, or no more than `most` with `bytes` more. For a thread that
  /// holds none: who has a buffer gives it back without its help. Errors: Stopped once stop() was
  /// called.
  void await_room(std::uint64_t bytes, std::uint64_t most);
  /// Ends that waiting, for good.
  void stop();
  /// Bytes of buffers that nobody uses.
  std::uint64_t kept_bytes() const;

 private:
  struct FreeList;
  class Pooled;
  MakeStaging make_;
  std::shared_ptr<FreeList> free_list_;
};

}  // namespace vindex::engine
