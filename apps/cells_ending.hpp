// Owns how the verbs end whose rows are cells (experts, cka, activations, routing).
#pragma once

#include "run_talk.hpp"
#include "verbs.hpp"

#include <vindex/engine/job_runner.hpp>
#include <vindex/results/run_store.hpp>

#include <string>

namespace vindex::apps {

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
