// Owns a job's way from its rows to a results file: budget, resume, units and their workers,
// progress, parts, publishing, early stop, and the exit code that the first failing row asks for;
// and how the outcome is reported to a person. It knows nothing of what rows hold.
#pragma once

#include "job.hpp"
#include "progress.hpp"

#include "core/text/text_table.hpp"
#include "engine/plan/job_plan.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/read_statistics.hpp"
#include "results/runs/worker_share.hpp"
#include "results/schema/run_description.hpp"
#include <vindex/error.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::engine {

/// How a run ended.
struct RunOutcome {
  ExitCode exit_code = ExitCode::kOk;
  std::int64_t derived_total = 0;  ///< of `total`: rows of other tables than the file's first
  std::int64_t total = 0, measured_now = 0, done_before = 0, failed = 0, unsupported = 0,
               not_finite = 0, escalated = 0;
  bool stopped = false;
  double seconds = 0.0;
  /// Of these, until the workers began, and until the last row was there.
  double begun_seconds = 0.0, last_row_seconds = 0.0;
  input::ReadStatistics reading;  ///< how the weights were read
  std::string reading_engine;     ///< BulkReader::engine()
  /// One line per row that is not measured, at most kMaxTroubles.
  std::vector<std::string> troubles;
  /// "NAME: why" of the first row in row order that asked for `exit_code`; else empty.
  std::string first_failure_reason;
  std::int64_t first_failure = -1;  ///< that row; negative: none
};

/// Counts a finished row, and whether the exit code is that of its failure.
void count_row(RunOutcome& outcome, const results::ResultRow& row, const RowFacts& facts);

/// How a run talks while it works; every member may be empty.
struct RunHooks {
  std::stop_token stop = {};                                   ///< requested: stop early
  std::function<void(const std::string&)> message = {};        ///< one line for people
  std::function<void(const ProgressSnapshot&)> progress = {};  ///< at most every 100 ms
};

/// What a run is asked beside its job.
struct JobRun {
  std::string output;  ///< results file; empty: rows are kept nowhere
  results::RunDescription description;
  results::WorkerShare worker;
  bool restart = false;
  std::uint64_t ram_budget = 0;  ///< bytes
  std::uint64_t held = 0;        ///< of these, what the caller holds meanwhile
  /// Lines for people, said once nothing refuses the run any more.
  std::vector<std::string> messages;
  /// That reads the weights; prepared where the description mentions it.
  std::unique_ptr<input::BulkReader> reader;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

/// Runs `job` to the end or to a stop. After a stop, and after an error, what was finished is
/// published first; then its workers are waited for, which look at the stop about every second.
/// Errors: as the exit codes of the contract say, for whatever prevents the run as a whole;
/// troubles of single rows are in the outcome.
RunOutcome run_job(std::unique_ptr<Job> job, JobRun run, const RunHooks& hooks);

/// What failed and why, what was measured twice, how long it took, in lines of at most `columns`
/// columns but for names and reasons. What was read, and how fast, where `is_verbose`, or where
/// reading took most of a run of five seconds or more.
std::string outcome_text(const RunOutcome& outcome, std::size_t columns = kUsualWidth,
                         const char* noun = "matrices", bool is_verbose = false);

/// "NAME: why" of the first row in row order that asks for an exit code, and how many more rows
/// have no measurement. Only where outcome.first_failure_reason is not empty.
std::string failure_text(const RunOutcome& outcome, const char* noun = "matrices");

}  // namespace vindex::engine
