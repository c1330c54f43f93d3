// Owns how runs begin alike: a model that is opened whole, the reader of the files, and what the
// settings ask of the runner.
#pragma once

#include <vindex/model/model_index.hpp>
#include <vindex/run/measure_run.hpp>
#include <vindex/shard/bulk_reader.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

namespace vindex::run {

/// A model that a run keeps open, all its matrices.
struct OpenModel {
  shard::ModelFiles files;
  model::ModelIndex index;
};

/// Opens `path`; `model_config` as of --model-config. Errors: those of shard::open_model() and
/// model::index_model().
OpenModel open_whole(const std::string& path, const std::string& model_config,
                     std::int32_t threads);

/// The reader of a run, asked about every file of `models`; null ones are passed over.
std::unique_ptr<shard::BulkReader> open_reader(
    const shard::BulkReadOptions& reading, std::initializer_list<const shard::ModelFiles*> models);

/// A run of `settings`, begun now. Reader, description and messages are left to the caller.
JobRun begin_run(const RunSettings& settings);

}  // namespace vindex::run
