// Owns a measuring run from settings to results file: opens the model and the back ends and hands
// the job of its spectra to the runner.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/model/selection.hpp>
#include <vindex/run/job_runner.hpp>
#include <vindex/run/spectrum_plan.hpp>
#include <vindex/shard/bulk_reader.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::run {

enum class BackendChoice : std::uint8_t { kAuto, kCpu, kCuda };

/// What the command line asks for.
struct RunSettings {
  std::string model;  ///< its address (vindex/shard/open_store.hpp), as of every input
  std::string model_config;
  std::string output;
  model::Selection selection;
  model::IndexOptions indexing;
  std::string imatrix;  ///< importance matrix of --imatrix; empty: none
  measure::MeasureOptions options;
  BackendChoice backend = BackendChoice::kAuto;
  std::vector<std::int32_t> devices = {0};  ///< CUDA devices; empty: all
  std::int32_t threads = 0;                 ///< CPU workers; 0: every core
  std::string blas_core;  ///< kernels of OpenBLAS that the user wants; empty: the processor's best
  std::uint64_t ram_budget = 0;   ///< bytes; a run needs more than 0 (run/ram_budget.hpp)
  std::string ram_budget_source;  ///< where it comes from, for /run/settings
  bool store_spectra = true;
  /// Where set, samples are taken of the weights of every matrix and every 1-D tensor
  /// (measure/sample_angles.hpp), and this says what kind of tensor a name is of.
  std::function<std::string(std::string_view name)> class_of = nullptr;
  /// Matrices are read in the order of the files and of the bytes in them, each file once, whatever
  /// the order of the rows.
  bool in_file_order = false;
  shard::BulkReadOptions reading;
  results::WorkerShare worker;
  bool restart = false;
  std::vector<std::string> command;  ///< argv, for the file's history
  /// "NAME=value" of the environment that was taken out of it, for the file and for the user.
  std::vector<std::string> unset_variables = {};
};

/// A model opened and understood, with what was selected of it.
struct SelectedModel {
  shard::ModelFiles files;
  model::ModelIndex index;
  /// Indices into index.matrices, in row order; what is derived from the selected ones behind them.
  std::vector<std::int64_t> selected;
  std::shared_ptr<const model::ImportanceMatrix> importance;  ///< with settings.imatrix
  /// Worth knowing before the run: parts of the selection that name nothing, tensors of many sides
  /// that stand unmeasured. One line each.
  std::vector<std::string> notes;
};

/// Opens, selects, and adds the derived rows that the settings ask for. Errors: those of
/// open_model/index_model; MissingInputError E-NOTHING (66) where the model has no matrix;
/// UsageError E-SELECTION (64) where the selection names none of them.
SelectedModel open_selected(const RunSettings& settings);

/// The back ends chosen, one object per device. `note` receives one line on what was chosen and
/// why. Errors: DeviceError E-NO-GPU (70) where CUDA is demanded and absent.
std::vector<std::unique_ptr<measure::Backend>> open_backends(const RunSettings& settings,
                                                             std::string& note);

/// The plan of everything selected on `backends`. Errors: ConfigurationError E-BUDGET (78) where
/// the budget is too small.
WorkPlan plan_run(const RunSettings& settings, const SelectedModel& model,
                  const std::vector<std::unique_ptr<measure::Backend>>& backends);

/// Seconds that `plan` would take: noise in the shapes and encodings that cost most is measured on
/// all back ends as a run would, the rest scaled by arithmetic. Takes a few seconds itself; knows
/// nothing of the storage.
double expected_seconds(const WorkPlan& plan, const model::ModelIndex& index,
                        const RunSettings& settings,
                        const std::vector<std::unique_ptr<measure::Backend>>& backends);

/// Device memory of `backend` that the calls of `plan` which run at once take at most; bytes.
std::uint64_t device_need(const WorkPlan& plan, const model::ModelIndex& index,
                          const RunSettings& settings, const measure::Backend& backend);

/// Measures the model of `settings`; see run_job(). Errors: those of open_selected(),
/// open_backends() and run_job().
RunOutcome measure_model(const RunSettings& settings, const RunHooks& hooks);

}  // namespace vindex::run
