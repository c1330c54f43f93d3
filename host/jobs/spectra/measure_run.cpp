// Owns the steps of a measuring run, and the plan of one that is not carried out.
#include "spectrum_job.hpp"
#include "vector_samples.hpp"

#include <vindex/engine/description_parts.hpp>
#include <vindex/jobs/spectra/measure_run.hpp>
#include <vindex/jobs/spectra/run_description.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace vindex::jobs {

engine::WorkPlan plan_run(const engine::RunSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<measure::Backend>>& backends) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < model.selected.size(); ++row) {
    if (model.index.matrices[static_cast<std::size_t>(model.selected[row])].unsupported.empty()) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  const std::vector<engine::RowWork> works =
      spectrum_works(model, backends, settings.options, row_options(settings), rows);
  return engine::plan_job(works, static_cast<std::int64_t>(model.selected.size()),
                          lanes_of(backends, row_options(settings)), settings.ram_budget);
}

engine::RunOutcome measure_model(const engine::RunSettings& settings,
                                 const engine::RunHooks& hooks) {
  engine::JobRun run = engine::begin_run(settings);
  engine::SelectedModel model = engine::open_selected(settings);
  std::string note;
  std::vector<std::unique_ptr<measure::Backend>> backends = engine::open_backends(settings, note);
  run.reader = engine::open_reader(settings.reading, {&model.files});
  run.description = describe_run(settings, model, backends, *run.reader);
  if (settings.class_of != nullptr) {
    add_samples(settings, model, run.description);
  }
  engine::add_warnings(model.files, model.index, "", run.messages);
  run.messages.insert(run.messages.end(), model.notes.begin(), model.notes.end());
  run.messages.push_back(note);
  auto job = std::make_unique<SpectrumJob>(std::move(model), std::move(backends), settings.options,
                                           row_options(settings));
  return engine::run_job(std::move(job), std::move(run), hooks);
}

}  // namespace vindex::jobs
