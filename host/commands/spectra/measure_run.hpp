// Owns a measuring run from settings to results file: opens the model and the back ends and hands
// the job of its spectra to the runner.
#pragma once

#include "spectra_model.hpp"

#include "engine/plan/work_plan.hpp"
#include "engine/run/job_runner.hpp"

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace vindex::commands {

/// The plan of everything selected on `backends`. Errors: ConfigurationError E-BUDGET (78) where
/// the budget is too small.
engine::WorkPlan plan_run(const SpectraSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<Backend>>& backends);

/// Begins to load OpenBLAS, once for the process, which takes as long as opening a small model:
/// measure_model() does it, and whoever knows earlier what it will be asked for. While the loader
/// works no thread can be started. What is wrong with the library is said where it is asked for.
/// Does nothing where addresses are limited (RLIMIT_AS): memory then goes to one after the other.
/// `core` as in RunSettings::blas_core.
[[nodiscard]] std::vector<std::jthread> load_blas_ahead(std::string core);

/// Measures the model of `settings`; see run_job(). Errors: those of
/// open_spectra_model(), engine::open_backends() and run_job().
engine::RunOutcome measure_model(const SpectraSettings& settings, const engine::RunHooks& hooks);

}  // namespace vindex::commands
