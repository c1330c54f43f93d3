// Owns a job's way from its rows to a results file: budget, resume, units and their workers,
// progress, parts, publishing and early stop. It knows nothing of what rows hold.
#pragma once

#include "job.hpp"
#include "progress.hpp"
#include "run_outcome.hpp"

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
  std::uint64_t ram_budget = 0;      ///< bytes
  std::uint64_t reserved_bytes = 0;  ///< of these, what the caller holds meanwhile
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

}  // namespace vindex::engine
