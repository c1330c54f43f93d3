// Owns a run of `vindex activations` from settings to results file: opens the dump and, where one
// is given, the model, and hands the job to the runner.
#pragma once

#include "engine/run/job_runner.hpp"
#include "engine/run_settings.hpp"

#include <string>

namespace vindex::commands {

/// What the command line asks for. Of `run` counts all but model, model_config, selection, options.
struct ActivationsSettings {
  engine::RunSettings run;
  std::string dump;
  std::string model;         ///< whose gate projections are measured; empty: none
  std::string model_config;  ///< --model-config of it
  bool hidden = false;       ///< hidden.L in the place of mlp.L
  bool covariance = true;    ///< effective_rank, the dear one
};

/// Errors: those of model::open_dump(), open_model(), index_model(), open_backends() and run_job();
/// FormatError E-DUMP-ROLE (65) where the dump has nothing of what was asked for.
engine::RunOutcome measure_activations(const ActivationsSettings& settings,
                                       const engine::RunHooks& hooks);

}  // namespace vindex::commands
