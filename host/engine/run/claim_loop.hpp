// Owns which shares a process works on where several claim them from one folder
// (results::RunStore::take_share()): it takes the next one when its workers have nothing left to
// begin, waits for those that others have, and takes over what dead ones leave.
#pragma once

#include "engine/plan/work_plan.hpp"
#include "results/runs/run_store.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

namespace vindex::engine {

/// What the caller does about a share.
struct ClaimHooks {
  std::function<void(std::int32_t share)> taken = {};     ///< before anything of it is begun
  std::function<void(std::int32_t share)> finished = {};  ///< by another process
};

/// next() and stop() are called from any thread, everything else from the one that owns the store.
class ClaimLoop {
 public:
  /// `units` of rows that are left, none with rows of two shares; `worker.owners` as divided. The
  /// first share that is tried is number `first` modulo their count: processes that begin at
  /// different places meet late. So many units are ready to be begun that `ahead` can be.
  ClaimLoop(results::RunStore& store, const results::WorkerShare& worker,
            const std::vector<WorkUnit>& units, std::size_t first, std::size_t ahead,
            ClaimHooks hooks);

  /// Claims shares as far as they are needed, a bounded number of tries; call it often. Errors:
  /// those of the store.
  void advance();
  /// A row of a unit was added to the store; with the last one of its share that is finished.
  void finished(std::int64_t row);
  /// The next unit to begin, waiting for one; null where there are no more.
  const WorkUnit* next();
  /// Nobody waits any more.
  void stop();

 private:
  struct Share {
    std::vector<const WorkUnit*> units;
    std::size_t left = 0;  ///< rows to come
  };
  void take(std::int32_t share);
  bool needs_more();

  results::RunStore& store_;
  const results::WorkerShare& worker_;
  ClaimHooks hooks_;
  std::size_t ahead_;
  std::vector<Share> shares_;
  std::deque<std::int32_t> open_;        ///< not tried in this round
  std::vector<std::int32_t> elsewhere_;  ///< tried; for the next round
  std::chrono::steady_clock::time_point round_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<const WorkUnit*> ready_;
  bool closed_ = false;
};

}  // namespace vindex::engine
