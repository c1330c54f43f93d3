// Owns how runs begin alike: what the command line asks for, small files that it names, back ends,
// a model that is opened whole or as far as it is selected, the reader of its files, and what the
// settings ask of the runner.
#pragma once

#include "job_runner.hpp"

#include "backend/backend.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/model_files.hpp"
#include "input/stores/shard_copies.hpp"
#include "model/experts/expert_sample.hpp"
#include "model/model_index.hpp"
#include "model/selection/selection.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::engine {

enum class BackendChoice : std::uint8_t { kAuto, kCpu, kCuda };
/// Of "auto", "cpu", "cuda".
std::optional<BackendChoice> backend_choice(std::string_view name);

/// What the command line asks for.
struct RunSettings {
  std::string model;  ///< its address (input/stores/open_store.hpp), as of every input
  std::string model_config;
  std::string output;
  model::Selection selection;
  /// Where set, what is drawn of every group of routed experts.
  std::optional<model::SampleChoice> sample = std::nullopt;
  /// Matrices are worked on in the order of their draw, the first of all groups before the second
  /// of any; needs `sample`.
  bool in_drawn_order = false;
  model::IndexOptions indexing;
  std::string imatrix;  ///< importance matrix of --imatrix; empty: none
  MeasureOptions options;
  BackendChoice backend = BackendChoice::kAuto;
  std::vector<std::int32_t> devices = {0};  ///< CUDA devices; empty: all
  std::int32_t threads = 0;                 ///< CPU workers; 0: every core
  std::string blas_core;  ///< kernels of OpenBLAS that the user wants; empty: the processor's best
  bool matrix_unit = true;  ///< the CPU back end may use the processor's (cpu/simd/matrix_unit.hpp)
  std::uint64_t ram_budget = 0;  ///< bytes; a run needs more than 0 (engine/plan/memory_budget.hpp)
  std::string ram_budget_source;  ///< where it comes from, for /run/settings
  /// Copies of remote files are kept in `copies_folder`, at most `disk_budget` bytes of them; 0: no
  /// copies.
  std::uint64_t disk_budget = 0;
  std::string copies_folder;
  bool store_spectra = true;
  /// Where set, samples are taken of the weights of every matrix and every 1-D tensor
  /// (statistics/spectrum/sample_angles.hpp), and this says what kind of tensor a name is of.
  std::function<std::string(std::string_view name)> class_of = nullptr;
  /// Matrices are read in the order of the files and of the bytes in them, each file once, whatever
  /// the order of the rows.
  bool in_file_order = false;
  /// Where set, opens `model` instead of input::open_model(): a model in a form of its own.
  std::function<input::ModelFiles(const input::OpenOptions& options)> open_files = nullptr;
  input::BulkReadOptions reading;
  /// The files are first read whole, and their SHA-256 compared with what is published.
  bool verify = false;
  results::WorkerShare worker;
  std::string worker_source;  ///< the variables that gave it, for the user; empty: none
  bool restart = false;
  std::vector<std::string> command;  ///< argv, for the file's history
  /// "NAME=value" of the environment that was taken out of it, for the file and for the user.
  std::vector<std::string> unset_variables = {};
};

/// A model opened and understood, with what was selected of it.
struct SelectedModel {
  std::shared_ptr<input::ShardCopies> copies;  ///< with settings.disk_budget
  input::ModelFiles files;
  model::ModelIndex index;
  /// Indices into index.matrices, in row order; what is derived from the selected ones behind them.
  std::vector<std::int64_t> selected;
  std::int64_t before_sample = 0;  ///< matrices selected before settings.sample left some out
  std::shared_ptr<const model::ImportanceMatrix> importance;  ///< with settings.imatrix
  /// Worth knowing before the run: parts of the selection that name nothing, tensors of many sides
  /// that stand unmeasured. One line each.
  std::vector<std::string> notes;
};

/// Opens, selects, and adds the derived rows that the settings ask for. `stop`, here and below: of
/// waiting for a server, now and while it is read (input::open_store()). Errors: those of
/// open_model/index_model; MissingInputError E-NOTHING (66) where the model has no matrix;
/// UsageError E-SELECTION (64) where the selection names none of them.
SelectedModel open_selected(const RunSettings& settings, const std::stop_token& stop = {});

/// The CUDA devices that the settings ask for or allow, prepared (Backend::prepare()); none where
/// there are none, with the reason.
struct OpenedDevices {
  std::vector<std::unique_ptr<Backend>> backends;
  std::string why;
};
/// Errors: those of Backend::prepare().
OpenedDevices open_devices(const RunSettings& settings);

/// The back ends chosen, one object per device. `note` receives one line on what was chosen and
/// why. Errors: DeviceError E-NO-GPU (70) where CUDA is demanded and absent; those of
/// Backend::prepare().
std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings, std::string& note);
/// The same with what open_devices() gave.
std::vector<std::unique_ptr<Backend>> open_backends(const RunSettings& settings,
                                                    OpenedDevices devices, std::string& note);

/// Lines for a note on settings.unset_variables, each after a line break: what a device's libraries
/// would have made of them.
std::string unset_variables_note(const RunSettings& settings);

/// A model that a run keeps open, all its matrices.
struct OpenModel {
  input::ModelFiles files;
  model::ModelIndex index;
};

/// Opens `path`; `model_config` as of --model-config. Errors: those of input::open_model() and
/// model::index_model().
OpenModel open_whole(const std::string& path, const std::string& model_config, std::int32_t threads,
                     const std::stop_token& stop = {});

/// The reader of a run, asked about every file of `models`; null ones are passed over.
std::unique_ptr<input::BulkReader> open_reader(
    const input::BulkReadOptions& reading, std::initializer_list<const input::ModelFiles*> models);

/// A run of `settings`, begun now. Reader, description and messages are left to the caller.
JobRun begin_run(const RunSettings& settings);

/// Back ends that are opened from now on wait for every kernel they launch, so that a fault names
/// the kernel that caused it. Slow; for looking for a fault. Nothing where there is no
/// device. Call it before there are threads.
void await_launches();

/// The first `most` bytes of the regular local file `path`, or all there are. Neither a pipe nor a
/// device is waited for. Errors: those of input::open_file_source().
std::string beginning_of_file(const std::string& path, std::size_t most);

}  // namespace vindex::engine
