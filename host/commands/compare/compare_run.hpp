// Owns a comparing run from settings to results file: opens both models, pairs their matrices, and
// hands the job to the runner. Comparing itself is done on the host, whatever devices there are;
// spectra of differences and singular vectors by back ends.
#pragma once

#include "engine/run/job_runner.hpp"
#include "engine/run_settings.hpp"
#include "model/pairing/pairing.hpp"
#include "statistics/spectrum/subspace_overlap.hpp"

#include <cstdint>
#include <string>

namespace vindex::commands {

/// What the command line asks for. Of `run` count what ActivationsSettings names, the selection (of
/// A's matrices, and of what of B is listed without a partner), and the options of --delta and --k.
struct CompareSettings {
  std::string model_a, model_b;
  std::string model_config_a, model_config_b;  ///< --model-config of each
  model::LayerMap map;
  std::string map_text;              ///< as given
  std::string spectra_a, spectra_b;  ///< results files of both models; empty: none
  bool delta = false;                ///< also the spectrum of B - A
  std::int64_t subspace = 0;         ///< also the overlap of the top so many directions; 0: none
  engine::RunSettings run;
};

/// Compares every pair of matrices of two models. Errors: those of open_model() and index_model();
/// UsageError E-SELECTION (64) where the selection names no matrix of A, E-SPECTRA (64) where only
/// one file of spectra is given; FormatError E-NO-PAIR (65); ConfigurationError E-SPECTRA-MODEL
/// (78) where a file of spectra was measured from other files; those of run_job().
engine::RunOutcome compare_models(const CompareSettings& settings, const engine::RunHooks& hooks);

}  // namespace vindex::commands
