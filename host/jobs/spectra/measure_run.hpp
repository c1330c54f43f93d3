// Owns a measuring run from settings to results file: opens the model and the back ends and hands
// the job of its spectra to the runner.
#pragma once

#include "engine/opening.hpp"

#include <memory>
#include <vector>

namespace vindex::jobs {

/// The plan of everything selected on `backends`. Errors: ConfigurationError E-BUDGET (78) where
/// the budget is too small.
engine::WorkPlan plan_run(const engine::RunSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<measure::Backend>>& backends);

/// Seconds that `plan` would take: noise in the shapes and encodings that cost most is measured on
/// all back ends as a run would, the rest scaled by arithmetic. Takes a few seconds itself; knows
/// nothing of the storage.
double expected_seconds(const engine::WorkPlan& plan, const model::ModelIndex& index,
                        const engine::RunSettings& settings,
                        const std::vector<std::unique_ptr<measure::Backend>>& backends);

/// Device memory of `backend` that the calls of `plan` which run at once take at most; bytes.
std::uint64_t device_need(const engine::WorkPlan& plan, const model::ModelIndex& index,
                          const engine::RunSettings& settings, const measure::Backend& backend);

/// Measures the model of `settings`; see run_job(). Errors: those of open_selected(),
/// open_backends() and run_job().
engine::RunOutcome measure_model(const engine::RunSettings& settings,
                                 const engine::RunHooks& hooks);

}  // namespace vindex::jobs
