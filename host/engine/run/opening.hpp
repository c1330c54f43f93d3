// Owns how runs begin alike: small files that the command line names, a model that is opened whole
// or as far as it is selected, and the reader of its files.
#pragma once

#include "engine/run_settings.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::engine {

/// A model opened and understood, with what was selected of it.
struct SelectedModel {
  input::ModelFiles files;
  model::ModelIndex index;
  /// Indices into index.matrices, in row order; what is derived from the selected ones behind them.
  std::vector<std::int64_t> selected;
  /// Worth knowing before the run: parts of the selection that name nothing, tensors of many sides
  /// that stand unmeasured. One line each.
  std::vector<std::string> notes;
};

/// Opens and selects. `stop`, here and below: of waiting for a server, now and while it is read
/// (input::open_store()). Errors: those of input::open_model() and select_of().
SelectedModel open_selected(const RunSettings& settings, const std::stop_token& stop = {});

/// What the settings select of `files`, which are opened; `indexing` says which rows are derived.
/// Errors: those of model::index_model(); MissingInputError E-NOTHING (66) where the model has no
/// matrix; UsageError E-SELECTION (64) where the selection names none of them.
SelectedModel select_of(input::ModelFiles files, model::IndexOptions indexing,
                        const RunSettings& settings);

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

/// The first `most` bytes of the regular local file `path`, or all there are. Neither a pipe nor a
/// device is waited for. Errors: those of input::open_file_source().
std::string beginning_of_file(const std::string& path, std::size_t most);

}  // namespace vindex::engine
