// Owns opening a model with the reader of its files, the runner's options from the settings, and
// reading small files.
#include "opening.hpp"

#include "input/local/file_source.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "model/importance/importance_matrix.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace vindex::engine {

OpenModel open_whole(const std::string& path, const std::string& model_config, std::int32_t threads,
                     const std::stop_token& stop) {
  OpenModel model;
  model.files =
      input::open_model(path, {.model_config = model_config, .threads = threads, .stop = stop});
  model::IndexOptions indexing;
  indexing.threads = threads;
  model.index = model::index_model(model.files, indexing);
  return model;
}

namespace {

/// Whether the embedding or the output may be among what is selected.
bool may_want_output(const model::Selection& selection) {
  return model::wants(selection, -1, model::Block::kEmbedding, "embed_tokens") ||
         model::wants(selection, -1, model::Block::kOutput, "lm_head");
}

}  // namespace

SelectedModel open_selected(const RunSettings& settings, const std::stop_token& stop) {
  SelectedModel model;
  const input::OpenOptions opening{.model_config = settings.model_config,
                                   .adapter = settings.indexing.lora,
                                   .for_matrices = true,
                                   .threads = settings.threads,
                                   .stop = stop};
  if (settings.open_files) {
    model.files = settings.open_files(opening);
  } else {
    std::shared_ptr<input::ModelStore> store = input::open_store(settings.model, stop);
    if (settings.disk_budget > 0) {
      model.copies =
          std::make_shared<input::ShardCopies>(settings.copies_folder, settings.disk_budget);
      store = input::make_keeping_store(std::move(store), model.copies);
    }
    model.files = input::open_model(std::move(store), opening);
  }
  model::IndexOptions indexing = settings.indexing;
  indexing.threads = settings.threads;
  if (!may_want_output(settings.selection)) {
    indexing.tied = model::TiedOutput::kComparePlaces;
  }
  model.index = model::index_model(model.files, indexing);
  if (model.index.matrices.empty()) {
    input::throw_nothing_to_measure(settings.model);
  }
  model.selected = model::select(model.index, settings.selection);
  if (model.selected.empty()) {
    throw UsageError("E-SELECTION",
                     fmt::format("{}: {}", printable(settings.model),
                                 model::empty_selection_text(model.index, settings.selection)));
  }
  model.before_sample = static_cast<std::int64_t>(model.selected.size());
  if (settings.sample) {
    model::draw_groups(model.index, settings.sample->seed);
    auto kept = model::keep_sample(model.index, std::move(model.selected), *settings.sample);
    model.notes.push_back(model::sample_text(kept, *settings.sample));
    model.selected = std::move(kept.selected);
  }
  for (const std::string& part : model::unmatched_parts(model.index, settings.selection)) {
    model.notes.push_back("warning W-SELECTION: " + part);
  }
  // Who asks for some matrices does not miss the others.
  if (model.before_sample == static_cast<std::int64_t>(model.index.matrices.size())) {
    if (const std::string unmeasured = model::unmeasured_text(model.index); !unmeasured.empty()) {
      model.notes.push_back("note: " + unmeasured);
    }
  }
  if (model.copies != nullptr &&
      std::all_of(model.files.shards.begin(), model.files.shards.end(),
                  [](const input::Shard& shard) { return shard.source->descriptor() >= 0; })) {
    model.notes.emplace_back("note: --disk-budget keeps no copies of files on this machine");
  }
  if (!settings.imatrix.empty()) {
    model.importance = model::open_importance_matrix(settings.imatrix, stop);
    model::weigh_columns(model.importance, model.index, model.selected);
    // Weighted rows come before products.
    std::stable_sort(model.selected.begin(), model.selected.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       return model.index.matrices[static_cast<std::size_t>(a)].table <
                              model.index.matrices[static_cast<std::size_t>(b)].table;
                     });
  }
  return model;
}

std::unique_ptr<input::BulkReader> open_reader(
    const input::BulkReadOptions& reading, std::initializer_list<const input::ModelFiles*> models) {
  auto reader = std::make_unique<input::BulkReader>(reading);
  for (const input::ModelFiles* const files : models) {
    if (files == nullptr) {
      continue;
    }
    for (const input::Shard& shard : files->shards) {
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
  if (!settings.worker_source.empty()) {
    run.messages.push_back(fmt::format("worker {} of {}, by {}", settings.worker.index,
                                       settings.worker.count, settings.worker_source));
  }
  return run;
}

std::string beginning_of_file(const std::string& path, std::size_t most) {
  const auto source = input::open_file_source(path);
  std::string text(std::min<std::uint64_t>(most, source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace vindex::engine
