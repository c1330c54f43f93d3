// Owns a pass as units for the worker pool: its works, its threads and its progress.
#include "opening.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/backend.hpp>
#include <vindex/run/matrix_pass.hpp>
#include <vindex/run/unit_stream.hpp>
#include <vindex/run/worker_pool.hpp>

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace vindex::run {

namespace {

std::vector<RowWork> works_of(const std::vector<PassMatrix>& matrices) {
  std::vector<RowWork> works;
  works.reserve(matrices.size());
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const PassMatrix& matrix = matrices[i];
    RowWork work;
    work.row = static_cast<std::int64_t>(i);
    work.matrices = {{0, work.row}};
    work.name = matrix.record.tensor;
    work.read_bytes = stored_bytes(matrix.record);
    work.cost = static_cast<double>(work.read_bytes);
    work.slot = staged_bytes(matrix.record).slot;
    work.workspace = work.min_workspace = matrix.decoded;
    work.streamed = matrix.decoded + matrix.encoded + work.read_bytes - matrix.record.codes.bytes;
    works.push_back(std::move(work));
  }
  return works;
}

/// What has been done, reported by workers to the thread that waits for them.
class Progress {
 public:
  void add(const model::MatrixRecord& record) {
    const std::lock_guard lock(mutex_);
    ++snapshot_.done.matrices;
    snapshot_.done.bytes += stored_bytes(record);
    snapshot_.done.cost += static_cast<double>(stored_bytes(record));
    snapshot_.current = model::matrix_name(record);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  /// True once it has ended; waits a moment for it.
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(100), [this] { return ended_; });
  }
  void set_total(const WorkPlan& plan) {
    snapshot_.total = {.matrices = plan.matrices, .bytes = plan.read_bytes, .cost = plan.cost};
  }
  ProgressSnapshot snapshot() {
    const std::lock_guard lock(mutex_);
    ProgressSnapshot now = snapshot_;
    now.elapsed_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    return now;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  ProgressSnapshot snapshot_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

void work_on(UnitStream& unit, const PassBody& body) {
  unit.wait(0);
  unit.require_read(0);
  body(static_cast<std::size_t>(unit.unit->rows.front()), *unit.input(0));
  unit.require_read(0);  // what was read slab by slab, and files that changed meanwhile
  unit.input(0)->release();
}

}  // namespace

PassOutcome pass_over(const shard::ModelFiles& files, const std::vector<PassMatrix>& matrices,
                      const PassOptions& options, const PassBody& body, const RunHooks& hooks) {
  model::ModelIndex index;
  for (const PassMatrix& matrix : matrices) {
    index.matrices.push_back(matrix.record);
  }
  const ModelViews views = {{&files, &index}};
  const WorkPlan plan = plan_rows(
      works_of(matrices),
      {.ram_budget = options.ram_budget, .workers = options.threads, .batch = 1, .held = 1});
  if (plan.least_ram_bytes > options.ram_budget) {
    throw ConfigurationError(
        "E-BUDGET",
        fmt::format("--ram-budget is too small: {} bytes of it are left for reading, {} needs {}",
                    options.ram_budget, printable(plan.largest), plan.least_ram_bytes));
  }
  // Before the pool, behind what units refer to: reads under way when a pass is ended report their
  // units so, and the reader's end waits for them.
  const std::unique_ptr<shard::BulkReader> reader = open_reader(options.reading, {&files});
  Progress progress;
  progress.set_total(plan);
  WorkerPool pool(
      plan.units, options.ram_budget, {options.threads},
      [&](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
        return std::make_shared<UnitStream>(views, unit, measure::make_host_staging, *reader,
                                            std::move(lease));
      },
      [&](LoadedUnit& unit, std::size_t /*device*/) {
        work_on(static_cast<UnitStream&>(unit), body);
        progress.add(index.matrices[static_cast<std::size_t>(unit.unit->rows.front())]);
      },
      [&] { progress.end(); });
  while (!progress.wait()) {
    if (hooks.stop.stop_requested()) {
      pool.stop();
    }
    if (hooks.progress) {
      hooks.progress(progress.snapshot());
    }
  }
  // Workers that noticed a stop by themselves may have left the thread that begins units waiting.
  pool.stop();
  pool.join();
  if (const std::exception_ptr failure = pool.failure(); failure != nullptr) {
    std::rethrow_exception(failure);
  }
  return {progress.snapshot().done.matrices == plan.matrices, reader->statistics(),
          reader->engine()};
}

}  // namespace vindex::run
