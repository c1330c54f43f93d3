// Owns the runner itself: plan, resume, workers, parts, early stop, the final file.
#include "job_runner.hpp"

#include "claim_loop.hpp"
#include "description_parts.hpp"
#include "discard_store.hpp"
#include "stall_watch.hpp"
#include "worker_pool.hpp"

#include "core/files/process_name.hpp"
#include "engine/plan/division.hpp"
#include "engine/plan/job_plan.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/plan/pace.hpp"
#include "engine/units/stored_sources.hpp"
#include "engine/units/unit_stream.hpp"
#include "results/schema/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <unistd.h>
#include <utility>

namespace vindex::engine {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kPartSeconds = 30.0;         ///< work lost to a kill at most
constexpr double kPublishSeconds = 9.0 * 60;  ///< the contract says ten minutes

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
  std::unique_ptr<ClaimLoop> claims;  ///< where shares are claimed; the pool waits for it
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

  /// Plans, opens the store and finds out what is left; the bytes that units share.
  std::uint64_t prepare() {
    // The budget is judged for everything, so that a resumed run refuses what the first one would
    // have refused.
    std::vector<RowWork> works = job().works(supported_rows());
    shared_->plan = plan(works);
    divide(works);
    memory_ = result_queue_budget(ram_budget(), stored_rows(), 0);
    store_ = has_file() ? results::open_run_store(run_.output, run_.description, run_.worker,
                                                  run_.restart, memory_.pending_bytes)
                        : std::make_unique<DiscardStore>(job().row_count());
    // Said only now: a refusal is one line, and everything above may refuse.
    for (const std::string& line : run_.messages) {
      say(line);
    }
    const std::vector<std::int64_t> left = resume();
    if (outcome_.done_before > 0) {
      say(fmt::format("resuming: {} of {} {} are done already", outcome_.done_before,
                      outcome_.total, snapshot_.noun));
    }
    if (run_.worker.claims || left.size() != works.size()) {
      works = job().works(left);
      if (run_.worker.claims) {
        keep_shares_apart(works, run_.worker.owners);
      }
      shared_->plan = plan(works);
    }
    sources_ = StoredSources(job().models(), works);
    return ram_budget() -
           result_queue_budget(ram_budget(), stored_rows(), largest_row(works)).bytes;
  }

  /// Starts the workers, whose units share `unit_budget` bytes.
  void begin(std::uint64_t unit_budget) {
    Shared* shared = shared_.get();
    shared->rows = std::make_unique<RowSink>(memory_.queue_bytes);
    shared->job->begin(*shared->rows, memory_.queue_bytes);
    const std::uint64_t kept = kept_staging(shared->plan, unit_budget);
    shared->staging = std::make_unique<StagingPool>(
        [shared](std::size_t bytes) { return shared->job->make_staging(bytes); }, kept);
    const WorkerLayout layout = shared->job->worker_layout();
    WorkerPool::Source source;
    if (run_.worker.claims) {
      begin_claims();
      source = {.next = [shared] { return shared->claims->next(); },
                .stop =
                    [shared] {
                      shared->claims->stop();
                      shared->staging->stop();
                    }};
    } else {
      source = {.next =
                    [shared, at = std::size_t{0}]() mutable {
                      return at < shared->plan.units.size() ? &shared->plan.units[at++] : nullptr;
                    },
                .stop = [shared] { shared->staging->stop(); }};
    }
    const std::uint64_t most = batch_staging(shared->plan, layout.calls.size());
    shared->pool = std::make_unique<WorkerPool>(
        std::move(source), unit_budget - kept, layout.calls,
        [shared, most](const WorkUnit& unit, std::shared_ptr<MemoryLease> lease) {
          if (unit.ring) {
            shared->staging->await_room(unit.staging_bytes, most);
          }
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
    if (const std::int32_t had = shared->pool->consumers(); had < layout.count()) {
      say(fmt::format("the system gave threads for {} of {} workers; the run goes on with them",
                      had, layout.count()));
    }
    snapshot_.started_seconds = outcome_.begun_seconds = now();
  }

  /// Takes rows until there are no more, or a stop.
  RunOutcome work() {
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
    if (outcome_.stopped) {
      outcome_.exit_code = ExitCode::kStoppedEarly;
    }
    return std::move(outcome_);
  }

 private:
  Job& job() { return *shared_->job; }
  bool has_file() const { return !run_.output.empty(); }
  std::int64_t stored_rows() { return has_file() ? job().row_count() : 0; }
  std::uint64_t ram_budget() const { return left_of(run_.ram_budget, run_.reserved_bytes); }
  WorkPlan plan(const std::vector<RowWork>& works) {
    return plan_job(works, stored_rows(), job().worker_layout(), run_.ram_budget,
                    run_.reserved_bytes);
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

  /// Which process does which rows, where there are several.
  void divide(const std::vector<RowWork>& works) {
    results::WorkerShare& worker = run_.worker;
    if (worker.claims) {
      worker.count = claimed_shares(works, static_cast<std::size_t>(job().row_count()));
    }
    if (!worker.is_single()) {
      worker.owners = divide_rows(job().models(), works, job().row_count(), worker.count);
    }
  }
  bool is_mine(std::int64_t row) const {
    const results::WorkerShare& worker = run_.worker;
    return worker.is_single() || worker.claims ||
           worker.owners[static_cast<std::size_t>(row)] == worker.index;
  }

  /// Counts what is there already and what cannot be done; the rows that are left to this worker.
  std::vector<std::int64_t> resume() {
    outcome_.total = job().row_count();
    std::vector<std::int64_t> left;
    for (std::int64_t row = 0; row < outcome_.total; ++row) {
      const RowFacts facts = job().facts(row);
      const bool is_done = store_->done()[static_cast<std::size_t>(row)];
      outcome_.derived_total += facts.is_derived ? 1 : 0;
      if (is_mine(row)) {
        add_to(snapshot_.total, facts);
        if (!facts.unsupported.empty() || is_done) {
          add_to(snapshot_.before, facts);
        }
      }
      if (!facts.unsupported.empty()) {
        if (is_mine(row)) {
          tell_unsupported(row, facts, is_done);
        }
      } else if (is_done) {
        ++outcome_.done_before;
      } else if (is_mine(row)) {
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
    row.status = MatrixStatus::kUnsupported;
    row.reason = facts.unsupported;
    row.error_class = std::to_string(static_cast<int>(ExitCode::kMalformedInput));
    count_row(outcome_, row, facts);
    if (!is_done && run_.worker.claims) {
      unsupported_[run_.worker.owners[static_cast<std::size_t>(index)]].push_back(std::move(row));
    } else if (!is_done) {
      store_->add(std::move(row));
    }
  }

  /// Shares are begun where this process falls, and joined where others have been.
  void begin_claims() {
    for (std::int64_t row = 0; row < outcome_.total; ++row) {
      const auto number = static_cast<std::size_t>(row);
      if (!store_->done()[number] && job().facts(row).unsupported.empty()) {
        left_of_share_[run_.worker.owners[number]].push_back(row);
      }
    }
    const std::size_t first =
        std::hash<std::string>{}(fmt::format("{} {}", host_name(), ::getpid()));
    shared_->claims = std::make_unique<ClaimLoop>(
        *store_, run_.worker, shared_->plan.units, first,
        static_cast<std::size_t>(job().worker_layout().count()),
        ClaimHooks{.taken =
                       [this](std::int32_t share) {
                         for (results::ResultRow& row : unsupported_[share]) {
                           store_->add(std::move(row));
                         }
                         unsupported_.erase(share);
                       },
                   .finished = [this](std::int32_t share) { others_have_finished(share); }});
  }

  /// What others do is done before, so that rates are of this process alone.
  void others_have_finished(std::int32_t share) {
    for (const std::int64_t row : left_of_share_[share]) {
      const RowFacts facts = job().facts(row);
      add_to(snapshot_.before, facts);
      add_to(snapshot_.done, facts);
      ++outcome_.done_before;
      sources_.made(row);
    }
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
      if (shared_->claims != nullptr) {
        shared_->claims->advance();
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
    if (!run_.description.environment_json.empty()) {
      store_->set_environment(with_reading(run_.description.environment_json, *shared_->reader));
    }
    store_->publish_file();
    sources_.stored();
  }

  void take(results::ResultRow row) {
    RowFacts facts = job().facts(row.index);
    count_row(outcome_, row, facts);
    add_to(snapshot_.done, facts);
    snapshot_.failed = outcome_.failed + outcome_.unsupported;
    snapshot_.current = std::move(facts.name);
    cost_done_ += facts.cost;
    outcome_.last_row_seconds = now();
    pace_.mark(outcome_.last_row_seconds, cost_done_);
    const std::int64_t index = row.index;
    sources_.made(index);
    store_->add(std::move(row));
    if (shared_->claims != nullptr) {
      shared_->claims->finished(index);
    }
  }

  void tell_progress() {
    snapshot_.elapsed_seconds = now();
    if (const auto line = stall_.look(snapshot_.elapsed_seconds, shared_->reader->statistics())) {
      say(*line);
    }
    if (hooks_.progress) {
      hooks_.progress(snapshot_);
    }
    store_->show_progress(
        {.elapsed_seconds = snapshot_.elapsed_seconds,
         .rate_per_second = matrices_per_second(snapshot_),
         .eta_seconds = remaining_seconds(snapshot_),
         .pace = pace_.at(snapshot_.elapsed_seconds),
         .own_total = run_.worker.claims ? -1 : snapshot_.total.matrices,
         .own_done = run_.worker.claims ? outcome_.measured_now : snapshot_.done.matrices});
  }

  std::unique_ptr<Shared> shared_;
  JobRun run_;
  const RunHooks& hooks_;
  ResultQueueBudget memory_;  ///< its limits
  std::unique_ptr<results::RunStore> store_;
  StoredSources sources_;
  StallWatch stall_;
  ProgressSnapshot snapshot_;
  Pace pace_;
  double cost_done_ = 0.0;  ///< by this process
  /// Of shares that are claimed: rows that were to be done at the beginning.
  std::map<std::int32_t, std::vector<std::int64_t>> left_of_share_;
  /// Rows without work of shares that are not taken yet.
  std::map<std::int32_t, std::vector<results::ResultRow>> unsupported_;
  RunOutcome outcome_;
};

}  // namespace

RunOutcome run_job(std::unique_ptr<Job> job, JobRun run, const RunHooks& hooks) {
  Runner runner(std::move(job), std::move(run), hooks);
  runner.begin(runner.prepare());
  return runner.work();
}

}  // namespace vindex::engine
