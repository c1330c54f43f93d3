// Owns the steps of a measuring run, and the plan of one that is not carried out.
#include "description_parts.hpp"
#include "opening.hpp"
#include "spectrum_job.hpp"
#include "vector_samples.hpp"

#include <vindex/model/importance_matrix.hpp>
#include <vindex/model/selection.hpp>
#include <vindex/run/measure_run.hpp>
#include <vindex/run/run_description.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::run {

SelectedModel open_selected(const RunSettings& settings) {
  SelectedModel model;
  const shard::OpenOptions opening{.model_config = settings.model_config,
                                   .adapter = settings.indexing.lora,
                                   .for_matrices = true,
                                   .threads = settings.threads};
  model.files = shard::open_model(settings.model, opening);
  model::IndexOptions indexing = settings.indexing;
  indexing.threads = settings.threads;
  model.index = model::index_model(model.files, indexing);
  if (model.index.matrices.empty()) {
    shard::throw_nothing_to_measure(settings.model);
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
  if (!settings.imatrix.empty()) {
    model.importance = model::open_importance_matrix(settings.imatrix);
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

WorkPlan plan_run(const RunSettings& settings, const SelectedModel& model,
                  const std::vector<std::unique_ptr<measure::Backend>>& backends) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < model.selected.size(); ++row) {
    if (model.index.matrices[static_cast<std::size_t>(model.selected[row])].unsupported.empty()) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  const std::vector<RowWork> works =
      spectrum_works(model, backends, settings.options, row_options(settings), rows);
  return plan_job(works, static_cast<std::int64_t>(model.selected.size()),
                  lanes_of(backends, row_options(settings)), settings.ram_budget);
}

RunOutcome measure_model(const RunSettings& settings, const RunHooks& hooks) {
  JobRun run = begin_run(settings);
  SelectedModel model = open_selected(settings);
  std::string note;
  std::vector<std::unique_ptr<measure::Backend>> backends = open_backends(settings, note);
  run.reader = open_reader(settings.reading, {&model.files});
  run.description = describe_run(settings, model, backends, *run.reader);
  if (settings.class_of != nullptr) {
    add_samples(settings, model, run.description);
  }
  add_warnings(model.files, model.index, "", run.messages);
  run.messages.insert(run.messages.end(), model.notes.begin(), model.notes.end());
  run.messages.push_back(note);
  auto job = std::make_unique<SpectrumJob>(std::move(model), std::move(backends), settings.options,
                                           row_options(settings));
  return run_job(std::move(job), std::move(run), hooks);
}

}  // namespace vindex::run
