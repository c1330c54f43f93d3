// Owns opening a model with the reader of its files, and the runner's options from the settings.
#include "opening.hpp"

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

}  // namespace vindex::run
