// Owns a CKA run from settings to results file: opens two dumps of activations, makes sure that
// their rows correspond, and hands the job to the runner.
#pragma once

#include "engine/run/job_runner.hpp"
#include "engine/run_settings.hpp"

#include <cstdint>
#include <string>

namespace vindex::commands {

/// What the command line asks for.
struct CkaSettings {
  std::string dump_a, dump_b;
  std::string role = "hidden";     ///< of the arrays: hidden, mlp or router_logits
  std::string pool;                ///< "mean" or "last": one row for each prompt; empty: tokens
  std::string layers_a, layers_b;  ///< as --layers; empty: all
  std::int32_t permutations = 100;
  bool interval = true;  ///< se, ci_low, ci_high and stages, by the jackknife
  /// Output, back end, threads, memory, reading, worker, restart and command; the rest is unused.
  engine::RunSettings run;
};

/// CKA of every layer of A with every layer of B (statistics/cka/cka.hpp). Errors: those of
/// open_dump(); UsageError E-SELECTION (64) for layers that are not there, FormatError E-CKA-LAYERS
/// (65) for a dump without the role, ConfigurationError E-CKA-ROWS (78) where rows do not
/// correspond or are fewer than four; those of open_backends() and run_job().
engine::RunOutcome compare_activations(const CkaSettings& settings, const engine::RunHooks& hooks);

}  // namespace vindex::commands
