// Owns opening a model with the reader of its files, and reading small files.
#include "opening.hpp"

#include "input/local/file_source.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "model/importance/importance_matrix.hpp"
#include "model/index/index_model.hpp"
#include "model/selection/selection.hpp"
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
  return select_of(input::open_model(settings.model, {.model_config = settings.model_config,
                                                      .for_matrices = true,
                                                      .threads = settings.threads,
                                                      .stop = stop}),
                   {}, settings);
}

SelectedModel select_of(input::ModelFiles files, model::IndexOptions indexing,
                        const RunSettings& settings) {
  SelectedModel model;
  model.files = std::move(files);
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
  for (const std::string& part : model::unmatched_parts(model.index, settings.selection)) {
    model.notes.push_back("warning W-SELECTION: " + part);
  }
  // Who asks for some matrices does not miss the others.
  if (model.selected.size() == model.index.matrices.size()) {
    if (const std::string unmeasured = model::unmeasured_text(model.index); !unmeasured.empty()) {
      model.notes.push_back("note: " + unmeasured);
    }
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

std::string beginning_of_file(const std::string& path, std::size_t most) {
  const auto source = input::open_file_source(path);
  std::string text(std::min<std::uint64_t>(most, source->size()), '\0');
  source->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace vindex::engine
