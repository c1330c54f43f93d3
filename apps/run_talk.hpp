// Owns how the verbs that run a job talk while it works, and the flags that they share.
#pragma once

#include "verbs.hpp"

#include <vindex/results/run_store.hpp>
#include <vindex/run/job_runner.hpp>
#include <vindex/run/progress.hpp>

#include <string>

namespace vindex::apps {

/// Reads "i/n". Errors: UsageError E-WORKER. Nothing given: a single run.
results::WorkerShare parse_worker(const std::string& text);

void add_worker(CLI::App& verb, std::string& text);
void add_progress(CLI::App& verb, std::string& choice);
void add_ram_budget(CLI::App& verb, std::string& text);

/// How the verb ends whose job wrote `output`: what a stop left, or the first row that failed.
/// `noun` says what the rows are.
Ending ending_of(const std::string& output, const run::RunOutcome& outcome, const char* noun);

/// Progress and messages of one run, on standard error.
class RunTalk {
 public:
  /// `progress`: auto, plain, json or none.
  RunTalk(const Session& session, const std::string& progress);
  /// Refers to this object.
  run::RunHooks hooks();
  /// Ends the progress line.
  void finish();

 private:
  const Session& session_;
  run::ProgressReporter reporter_;
  run::ProgressSnapshot last_;
};

}  // namespace vindex::apps
