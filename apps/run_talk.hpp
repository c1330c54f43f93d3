// Owns how verbs talk while they work.
#pragma once

#include "verbs.hpp"

#include <vindex/run/job_runner.hpp>
#include <vindex/run/progress.hpp>

#include <cstddef>
#include <functional>
#include <string>

namespace vindex::apps {

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

/// For what is no job and keeps nothing: counts matrices on one live line of standard error; empty
/// where there is no terminal, and with --quiet.
std::function<void(std::size_t done, std::size_t total)> matrix_counter(const Session& session);

}  // namespace vindex::apps
