// Owns opening a model with the reader of its files, the runner's options from the settings, and
// reading small files.
#include "opening.hpp"

#include <vindex/run/small_file.hpp>
#include <vindex/shard/byte_source.hpp>

#include <algorithm>
#include <span>

namespace vindex::run {

OpenModel open_whole(const std::string& path, const std::string& model_config,
                     std::int32_t threads) {
  OpenModel model;
  model.files = shard::open_model(path, {.model_config = model_config, .threads = threads});
  model::IndexOptions indexing;
  indexing.threads = threads;
  model.index = model::index_model(model.files, indexing);
  return model;
}

std::unique_ptr<shard::BulkReader> open_reader(
    const shard::BulkReadOptions& reading, std::initializer_list<const shard::ModelFiles*> models) {
  auto reader = std::make_unique<shard::BulkReader>(reading);
  for (const shard::ModelFiles* const files : models) {
    if (files == nullptr) {
      continue;
    }
    for (const shard::Shard& shard : files->shards) {
      reader->prepare(*shard.source);
    }
  }
  return reader;
}

JobRun begin_run(const RunSettings& settings) {
  JobRun run;
  run.output = settings.output;
  run.worker = settings.worker;
  run.restart = settings.restart;
  run.ram_budget = settings.ram_budget;
  return run;
}

std::string beginning_of_file(const std::string& path, std::size_t most) {
  const auto source = shard::open_file_source(path);
  std::string text(std::min<std::uint64_t>(most, source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace vindex::run
