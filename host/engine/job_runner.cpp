// Owns the runner itself: plan, resume, workers, parts, early stop, the final file.
#include "job_runner.hpp"

#include "memory_budget.hpp"
#include "stall_watch.hpp"
#include "stored_sources.hpp"
#include "unit_stream.hpp"
#include "worker_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::engine {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxTroubles = 20;
constexpr double kPartSeconds = 30.0;         ///< work lost to a kill at most
constexpr double kPublishSeconds = 9.0 * 60;  ///< the contract says ten minutes

std::uint64_t largest_row(const std::vector<RowWork>& works) {
  std::uint64_t most = 0;
  for (const RowWork& work : works) {
    most = std::max(most, work.result_bytes);
  }
  return most;
}

std::uint64_t left_of(std::uint64_t budget, std::uint64_t taken) {
  return budget - std::min(budget, taken);
}

/// Of `unit_budget`, what is set aside for staging memory between units: nothing where the largest
/// unit needs it all, or where no unit has any.
std::uint64_t kept_staging(const WorkPlan& plan, std::uint64_t unit_budget) {
  constexpr std::uint64_t kMax = 256U << 20U;
  constexpr std::uint64_t kShare = 16;
  std::uint64_t largest = 0;
  for (const WorkUnit& unit : plan.units) {
    largest = std::max(largest, unit.memory_bytes);
  }
  const std::uint64_t most = plan.ring_bytes == 0 ? 0 : kMax;
  return std::min({most, unit_budget / kShare, unit_budget - std::min(unit_budget, largest)});
}

/// The sink of a run without a file: what comes of its rows is the job's.
class NoStore final : public results::RunStore {
 public:
  explicit NoStore(std::int64_t rows) : done_(static_cast<std::size_t>(rows)) {}
  const std::vector<bool>& done() const override { return done_; }
  void add(results::ResultRow /*row*/) override {}
  void show_progress(const results::RunProgress& /*progress*/) override {}
  void publish_part() override {}
  void publish_file() override {}

 private:
  std::vector<bool> done_;
};

/// What the threads of a run touch; it outlives them, whatever ends the run.
struct Shared {
  Shared() = default;
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { stop(); }
  /// Nobody goes on computing, or waits for rows to be taken. The pool's end waits for its threads.
  void stop() {
    if (pool != nullptr) {
      pool->stop();
      rows->stop();
    }
  }

  std::unique_ptr<Job> job;
  WorkPlan plan;
  /// Behind what units refer to: reads under way when a unit ended early report it, and the
  /// reader's end waits for them.
  std::unique_ptr<input::BulkReader> reader;
  std::unique_ptr<StagingPool> staging;
  std::unique_ptr<RowSink> rows;
  std::unique_ptr<WorkerPool> pool;
};

class Runner {
 public:
  Runner(std::unique_ptr<Job> job, JobRun run, const RunHooks& hooks)
      : shared_(std::make_unique<Shared>()), run_(std::move(run)), hooks_(hooks) {
    shared_->job = std::move(job);
    shared_->reader = std::move(run_.reader);
    snapshot_.noun = results::row_noun(run_.description.schema);
  }

  RunOutcome run() {
    // The budget is judged for everything, so that a resumed run refuses what the first one would
    // have refused.
    std::vector<RowWork> works = job().works(supported_rows());
    shared_->plan = plan(works);
    memory_ = result_queue_budget(ram_budget(), stored_rows(), 0);
    store_ = has_file() ? results::open_run_store(run_.output, run_.description, run_.worker,
                                                  run_.restart, memory_.pending_bytes)
                        : std::make_unique<NoStore>(job().row_count());
    // Said only now: a refusal is one line, and everything above may refuse.
    for (const std::string& line : run_.messages) {
      say(line);
    }
    const std::vector<std::int64_t> left = resume();
    if (outcome_.done_before > 0) {
      say(fmt::format("resuming: {} of {} {} are done already", outcome_.done_before,
                      outcome_.total, snapshot_.noun));
    }
    if (left.size() != works.size()) {
      works = job().works(left);
      shared_->plan = plan(works);
    }
    sources_ = StoredSources(job().models(), works);
    begin(ram_budget() -
          result_queue_budget(ram_budget(), stored_rows(), largest_row(works)).bytes);
    work();
    return std::move(outcome_);
  }

 private:
  Job& job() { return *shared_->job; }
  bool has_file() const { return !run_.output.empty(); }
  std::int64_t stored_rows() { return has_file() ? job().row_count() : 0; }
  std::uint64_t ram_budget() const { return left_of(run_.ram_budget, run_.held); }
  WorkPlan plan(const std::vector<RowWork>& works) {
    return plan_job(works, stored_rows(), job().lanes(), run_.ram_budget, run_.held);
  }
  double now() const { return std::chrono::duration<double>(Clock::now() - run_.started).count(); }
  void say(const std::string& line) const {
    if (hooks_.message) {
      hooks_.message(line);
    }
  }

  std::vector<std::int64_t> supported_rows() {
    std::vector<std::int64_t> rows;
    for (std::int64_t row = 0; row < job().row_count(); ++row) {
      if (job().facts(row).unsupported.empty()) {
        rows.push_back(row);
      }
    }
    return rows;
  }

  static void add_to(ProgressSnapshot::Amount& amount, const RowFacts& facts) {
    ++amount.matrices;
    amount.bytes += facts.bytes;
    amount.cost += facts.cost;
  }

  /// Counts what is there already and what cannot be done; the rows that are left to this worker.
  std::vector<std::int64_t> resume() {
    outcome_.total = job().row_count();
    std::vector<std::int64_t> left;
    for (std::int64_t row = 0; row < outcome_.total; ++row) {
      const RowFacts facts = job().facts(row);
      const bool is_done = store_->done()[static_cast<std::size_t>(row)];
      const bool is_mine = row % run_.worker.count == run_.worker.index;
      outcome_.derived_total += facts.is_derived ? 1 : 0;
      if (is_mine) {
        add_to(snapshot_.total, facts);
        if (!facts.unsupported.empty() || is_done) {
          add_to(snapshot_.before, facts);
        }
      }
      if (!facts.unsupported.empty()) {
        if (is_mine) {
          tell_unsupported(row, facts, is_done);
        }
      } else if (is_done) {
        ++outcome_.done_before;
      } else if (is_mine) {
        left.push_back(row);
      }
    }
    snapshot_.done = snapshot_.before;
    snapshot_.failed = outcome_.unsupported;
    return left;
  }

  /// Nothing is read for such a row; it is reported again on every run so that the exit code stays
  /// the same.
  void tell_unsupported(std::int64_t index, const RowFacts& facts, bool is_done) {
    results::ResultRow row;
    row.index = index;
    row.status = measure::Status::kUnsupported;
    row.reason = facts.unsupported;
    row.error_class = std::to_string(static_cast<int>(ExitCode::kMalformedInput));
    count(row, facts);
    if (!is_done) {
      store_->add(std::move(row));
    }
  }

  /// Counts one finished row into the outcome.
  void count(const results::ResultRow& row, const RowFacts& facts) {
    ++outcome_.measured_now;
    outcome_.escalated += row.escalated ? 1 : 0;
    if (!row.error_class.empty() && (first_failure_ < 0 || row.index < first_failure_)) {
      first_failure_ = row.index;
      failure_code_ = static_cast<ExitCode>(std::stoi(row.error_class));
      outcome_.first_failure_reason = fmt::format("{}: {}", facts.name, printable(row.reason));
    }
    if (row.status == measure::Status::kMeasured) {
      return;
    }
    const bool not_finite = row.status == measure::Status::kNotFinite;
    const bool unsupported = row.status == measure::Status::kUnsupported;
    outcome_.not_finite += not_finite ? 1 : 0;
    outcome_.unsupported += unsupported ? 1 : 0;
    outcome_.failed += not_finite || unsupported ? 0 : 1;
    if (outcome_.troubles.size() < kMaxTroubles) {
      outcome_.troubles.push_back(fmt::format("{}: {}", facts.name, printable(row.reason)));
    }
  }

  /// Starts the workers, whose units share `unit_budget` bytes.
  void begin(std::uint64_t unit_budget) {
    Shared* shared = shared_.get();
    shared->rows = std::make_unique<RowSink>(memory_.queue_bytes);
    shared->job->begin(*shared->rows, memory_.queue_bytes);
    const std::uint64_t kept = kept_staging(shared->plan, unit_budget);
    shared->staging = std::make_unique<StagingPool>(
        [shared](std::size_t bytes) { return shared->job->make_staging(bytes); }, kept);
    const Lanes lanes = shared->job->lanes();
    shared->pool = std::make_unique<WorkerPool>(
        shared->plan.units, unit_budget - kept, lanes.calls,
        [shared](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
          return std::make_shared<UnitStream>(
              shared->job->models(), unit,
              [shared](std::size_t bytes) { return shared->staging->take(bytes); }, *shared->reader,
              std::move(lease));
        },
        [shared](LoadedUnit& unit, std::size_t device) {
          shared->job->process(static_cast<UnitStream&>(unit), device, *shared->rows);
        },
        [shared] {
          try {
            shared->job->finish();
            shared->rows->close();
          } catch (...) {
            shared->rows->fail(std::current_exception());
          }
        });
    if (const std::int32_t had = shared->pool->consumers(); had < lanes.count()) {
      say(fmt::format("the system gave threads for {} of {} workers; the run goes on with them",
                      had, lanes.count()));
    }
    snapshot_.started_seconds = now();
  }

  /// Takes rows until there are no more, or a stop.
  void work() {
    try {
      pump();
      for (const std::exception_ptr& failure :
           {shared_->pool->failure(), shared_->rows->failure()}) {
        if (failure != nullptr) {
          std::rethrow_exception(failure);
        }
      }
      publish_file();
    } catch (...) {
      // What was finished is kept as far as the disk allows; the first error is the one to report.
      const std::exception_ptr error = std::current_exception();
      shared_->stop();
      try {
        store_->publish_part();
      } catch (const std::exception& second) {
        say(fmt::format("what was finished could not be published either: {}", second.what()));
      }
      std::rethrow_exception(error);
    }
    outcome_.seconds = now();
    outcome_.reading = shared_->reader->statistics();
    outcome_.reading_engine = shared_->reader->engine();
    // Who noticed a stop by himself may have left the thread that begins units waiting.
    shared_->stop();
    shared_->pool->join();
    outcome_.exit_code = outcome_.stopped ? ExitCode::kStoppedEarly : failure_code_;
  }

  void pump() {
    double last_part = 0.0;
    double last_publish = 0.0;
    std::int64_t unpublished = 0;
    BoundedQueue<results::ResultRow>& rows = shared_->rows->rows();
    while (!rows.finished()) {
      if (hooks_.stop.stop_requested()) {
        outcome_.stopped = true;
        shared_->stop();  // they end while what is finished is published
        return;
      }
      if (auto row = rows.pop_for(std::chrono::milliseconds(100))) {
        take(std::move(*row));
        ++unpublished;
      }
      tell_progress();
      const double at = now();
      if (unpublished > 0 && at - last_part > kPartSeconds) {
        publish_part();
        last_part = now();
        unpublished = 0;
      }
      if (at - last_publish > kPublishSeconds) {
        publish_file();
        last_publish = now();
      }
    }
    // Reads that a stop ended may have ended every worker before it was seen here.
    outcome_.stopped =
        hooks_.stop.stop_requested() && snapshot_.done.matrices < snapshot_.total.matrices;
  }

  void publish_part() {
    store_->publish_part();
    sources_.stored();
  }

  void publish_file() {
    store_->publish_file();
    sources_.stored();
  }

  void take(results::ResultRow row) {
    RowFacts facts = job().facts(row.index);
    count(row, facts);
    add_to(snapshot_.done, facts);
    snapshot_.failed = outcome_.failed + outcome_.unsupported;
    snapshot_.current = std::move(facts.name);
    sources_.made(row.index);
    store_->add(std::move(row));
  }

  void tell_progress() {
    snapshot_.elapsed_seconds = now();
    if (const auto line = stall_.look(snapshot_.elapsed_seconds, shared_->reader->statistics())) {
      say(*line);
    }
    if (hooks_.progress) {
      hooks_.progress(snapshot_);
    }
    store_->show_progress({.elapsed_seconds = snapshot_.elapsed_seconds,
                           .rate_per_second = matrices_per_second(snapshot_),
                           .eta_seconds = remaining_seconds(snapshot_)});
  }

  std::unique_ptr<Shared> shared_;
  JobRun run_;
  const RunHooks& hooks_;
  ResultQueueBudget memory_;  ///< its limits
  std::unique_ptr<results::RunStore> store_;
  StoredSources sources_;
  StallWatch stall_;
  ProgressSnapshot snapshot_;
  RunOutcome outcome_;
  std::int64_t first_failure_ = -1;
  ExitCode failure_code_ = ExitCode::kOk;
};

}  // namespace

WorkPlan plan_job(const std::vector<RowWork>& works, std::int64_t row_count, const Lanes& lanes,
                  std::uint64_t ram_budget, std::uint64_t held) {
  const std::uint64_t largest = largest_row(works);
  const std::uint64_t own = left_of(ram_budget, held);
  const std::uint64_t beside = result_queue_budget(own, row_count, largest).bytes;
  WorkPlan plan = plan_rows(works, {.ram_budget = left_of(own, beside),
                                    .workers = lanes.count(),
                                    .batch = lanes.batch,
                                    .held = lanes.held,
                                    .in_order = lanes.in_order});
  plan.least_ram_bytes = budget_for(plan.least_ram_bytes, row_count, largest);
  plan.ram_bytes = budget_for(plan.ram_bytes, row_count, largest);
  require_budget(ram_budget, plan.largest, held + plan.least_ram_bytes);
  return plan;
}

RunOutcome run_job(std::unique_ptr<Job> job, JobRun run, const RunHooks& hooks) {
  return Runner(std::move(job), std::move(run), hooks).run();
}

}  // namespace vindex::engine
