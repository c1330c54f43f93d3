// Owns what is special about the model of `vindex measure`: draws, weights of columns, copies.
#include "spectra_model.hpp"

#include "blas/blas_library.hpp"
#include "input/open/open_model.hpp"
#include "input/stores/open_store.hpp"
#include "model/importance/importance_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::commands {

namespace {

input::ModelFiles open_files(const SpectraSettings& settings, const std::stop_token& stop,
                             std::shared_ptr<input::ShardCopies>& copies) {
  const input::OpenOptions opening{.model_config = settings.run.model_config,
                                   .adapter = settings.indexing.lora,
                                   .for_matrices = true,
                                   .threads = settings.run.threads,
                                   .stop = stop};
  if (settings.open_files) {
    return settings.open_files(opening);
  }
  std::shared_ptr<input::ModelStore> store = input::open_store(settings.run.model, stop);
  if (settings.copies.disk_budget > 0) {
    copies =
        std::make_shared<input::ShardCopies>(settings.copies.folder, settings.copies.disk_budget);
    store = input::make_keeping_store(std::move(store), copies);
  }
  return input::open_model(std::move(store), opening);
}

}  // namespace

SpectraModel open_spectra_model(const SpectraSettings& settings, const std::stop_token& stop) {
  SpectraModel model;
  static_cast<engine::SelectedModel&>(model) =
      engine::select_of(open_files(settings, stop, model.copies), settings.indexing, settings.run);
  model.before_sample = static_cast<std::int64_t>(model.selected.size());
  if (settings.sample) {
    model::draw_groups(model.index, settings.sample->seed);
    auto kept = model::keep_sample(model.index, std::move(model.selected), *settings.sample);
    model.notes.insert(model.notes.begin(), model::sample_text(kept, *settings.sample));
    model.selected = std::move(kept.selected);
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

std::vector<std::unique_ptr<Backend>> open_spectra_backends(const SpectraSettings& settings,
                                                            engine::OpenedDevices devices,
                                                            std::string& note) {
  auto backends = engine::open_backends(settings.run, std::move(devices), note);
  if (!backends.front()->limits().uses_host_cores &&
      (settings.indexing.heads || settings.indexing.lora)) {
    // Before there are workers: the note says which it is.
    const blas::BlasInfo& blas = blas::load_blas(settings.run.blas_core);
    note += fmt::format("\nproducts of factors: on the host, {}", blas.text());
    note += blas.warning.empty() ? "" : "\nwarning " + blas.warning;
  }
  return backends;
}

}  // namespace vindex::commands
