// Owns how verbs talk while they work, and how those end whose rows are cells (experts, cka,
// activations, routing).
#pragma once

#include "verbs.hpp"

#include "engine/job_runner.hpp"
#include "engine/progress.hpp"
#include "results/run_store.hpp"

#include <string>

namespace vindex::apps {

/// How the verb ends whose job wrote `output`: what a stop left, or the first row that failed.
/// `noun` says what the rows are.
Ending ending_of(const std::string& output, const engine::RunOutcome& outcome, const char* noun);

/// Progress and messages of one run, on standard error.
class RunTalk {
 public:
  /// `progress`: auto, plain, json or none.
  RunTalk(const Session& session, const std::string& progress);
  /// Of what keeps nothing on its way: a live line, or none where there is no terminal.
  explicit RunTalk(const Session& session);
  /// Refers to this object.
  engine::RunHooks hooks();
  /// Ends the progress line.
  void finish();

 private:
  const Session& session_;
  engine::ProgressReporter reporter_;
  engine::ProgressSnapshot last_;
};

/// What the end of a run reports.
struct EndedRun {
  std::string output;
  results::FileSchema schema = results::FileSchema::kRouting;
  results::WorkerShare worker = {};
  bool json = false;
};

/// The table of the finished file, as text or JSON, and how the run went. A stopped run and one
/// share of several have no table.
Ending end_of_cells(const EndedRun& run, const engine::RunOutcome& outcome, const Session& session);

}  // namespace vindex::apps
