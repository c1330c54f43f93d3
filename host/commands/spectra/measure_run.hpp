// Owns a measuring run from settings to results file: opens the model and the back ends and hands
// the job of its spectra to the runner.
#pragma once

#include "engine/run/opening.hpp"

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace vindex::commands {

/// The plan of everything selected on `backends`. Errors: ConfigurationError E-BUDGET (78) where
/// the budget is too small.
engine::WorkPlan plan_run(const engine::RunSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<Backend>>& backends);

/// What a dry run has tried.
struct AccessProof {
  std::int64_t files = 0;          ///< that were read at both ends of what is needed of them
  std::uint64_t sample_bytes = 0;  ///< read in one piece, to see how fast they come
  double sample_seconds = 0.0;
};
/// Tries everything that a run of `plan` needs of its surroundings: reads from every file that it
/// would read, makes and removes a temporary file beside the output, and looks for the room that
/// the results take there. Nothing is left. Errors: those of reading; OutputError, SystemError
/// E-OUT-CREATE, E-OUT-SPACE.
AccessProof prove_access(const engine::RunSettings& settings, const engine::SelectedModel& model,
                         const engine::WorkPlan& plan);

/// Disk that a run takes at most: the results file beside the parts that it is made of, and
/// `copies` bytes of remote files.
std::uint64_t needed_disk(const engine::WorkPlan& plan, std::uint64_t copies);

/// What a matrix of `rows x cols` is replaced by where a measurement of its speed is to take
/// `factor` of its time in each dimension: whole blocks of any encoding, and of thin ones no more
/// weights than are made and read in about a second (2^25).
struct ExampleShape {
  std::int64_t rows = 0, cols = 0;
};
ExampleShape example_shape(std::int64_t rows, std::int64_t cols, double factor);

/// Seconds that `plan` would take: noise in the shapes and encodings that cost most is measured on
/// all back ends as a run would, the rest scaled by arithmetic. Takes a few seconds itself; knows
/// nothing of the storage.
double expected_seconds(const engine::WorkPlan& plan, const model::ModelIndex& index,
                        const engine::RunSettings& settings,
                        const std::vector<std::unique_ptr<Backend>>& backends);

/// Device memory of `backend` that the calls of `plan` which run at once take at most; bytes.
std::uint64_t device_need(const engine::WorkPlan& plan, const model::ModelIndex& index,
                          const engine::RunSettings& settings, const Backend& backend);

/// Begins to load OpenBLAS, once for the process, which takes as long as opening a small model:
/// measure_model() does it, and whoever knows earlier what it will be asked for. While the loader
/// works no thread can be started. What is wrong with the library is said where it is asked for.
/// Does nothing where addresses are limited (RLIMIT_AS): memory then goes to one after the other.
/// `core` as in RunSettings::blas_core.
[[nodiscard]] std::vector<std::jthread> load_blas_ahead(std::string core);

/// Measures the model of `settings`; see run_job(). Errors: those of open_selected(),
/// open_backends() and run_job().
engine::RunOutcome measure_model(const engine::RunSettings& settings,
                                 const engine::RunHooks& hooks);

}  // namespace vindex::commands
