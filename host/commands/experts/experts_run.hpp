// Owns a run over the routed experts of a model from settings to results file: opens the model and
// the back ends, groups the experts, and hands the job to the runner.
#pragma once

#include "engine/run/job_runner.hpp"
#include "engine/run_settings.hpp"

#include <cstdint>
#include <string>

namespace vindex::commands {

/// What the command line asks for: of RunSettings the model, the selection, back ends, reading and
/// budget count.
struct ExpertsSettings {
  engine::RunSettings run;
  std::int32_t vectors = 0;  ///< --k: top singular vectors per expert; 0: no overlaps
};

/// What the machine could have done: how long reading alone and the products alone take.
struct ExpertsFloor {
  double seconds = 0.0;          ///< of the run
  double reading_seconds = 0.0;  ///< while at least one read was under way
  double flops = 0.0;            ///< of the Gram matrices: E (E+1) rows cols
  /// At the rate of the library's own rank update in memory (blas/blas_library.hpp) on as many
  /// threads; 0 where a device computes.
  double product_seconds = 0.0;
  double flops_per_second = 0.0;
};

struct ExpertsOutcome {
  engine::RunOutcome run;
  ExpertsFloor floor;
};

/// Measures every group. Errors: those of open_selected() and open_backends(); MissingInputError
/// E-NOTHING (66) where the model has no routed experts, UsageError E-SELECTION (64) where none is
/// selected; those of run_job().
ExpertsOutcome measure_experts(const ExpertsSettings& settings, const engine::RunHooks& hooks);

/// "23.1 s; reading alone 9.8 s, products alone 17.2 s (at 126 GFLOP/s): 1.34 times the longer".
std::string floor_text(const ExpertsFloor& floor);

}  // namespace vindex::commands
