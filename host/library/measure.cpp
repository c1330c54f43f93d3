// Owns measuring a model as a call: the settings of the program, its hooks and its outcome.
#include "access.hpp"

#include "commands/spectra/measure_run.hpp"
#include "core/process/stop.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/run/progress.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex {
namespace {

/// What the flags of the program refuse.
void require_in_range(const v0::MeasureSettings& settings) {
  const auto require = [](bool holds, const char* id, const char* name) {
    if (!holds) {
      throw UsageError(id, fmt::format("MeasureSettings::{} is out of its range", name));
    }
  };
  require(settings.worker >= 0 && settings.worker < settings.workers, "E-WORKER", "worker");
  require(settings.threads >= 0, "E-USAGE", "threads");
  require(settings.vectors >= 0, "E-USAGE", "vectors");
  require(
      settings.sign_flip_draws >= 0 && settings.sign_flip_draws <= statistics::kMaxSignFlipDraws,
      "E-NULL", "sign_flip_draws");
}

commands::SpectraSettings settings_of(const v0::Model& model, const std::filesystem::path& out,
                                      const v0::MeasureSettings& settings) {
  require_in_range(settings);
  commands::SpectraSettings measuring;
  engine::RunSettings& run = measuring.run;
  run.model = model.address();
  run.output = out.string();
  run.selection =
      model::parse_selection(settings.layers, settings.blocks, settings.roles, settings.tensors);
  run.options.mode = library::mode_of(settings.mode);
  run.options.escalate = settings.escalate;
  run.options.vectors = settings.vectors;
  run.options.sign_flip_draws = settings.sign_flip_draws;
  measuring.store_spectra = settings.store_spectra;
  run.backend = library::backend_of(settings.backend);
  if (!settings.devices.empty()) {
    run.devices = settings.devices;
  }
  run.threads = settings.threads;
  run.worker = {.index = settings.worker, .count = settings.workers};
  run.restart = settings.restart;
  run.provenance.command = {"vindex::measure"};
  run.ram_budget = settings.ram_budget;
  run.provenance.ram_budget_source = "MeasureSettings::ram_budget";
  if (settings.ram_budget == 0) {
    const engine::RamBudget budget = engine::default_ram_budget(engine::system_memory_limits(), {});
    run.ram_budget = budget.bytes;
    run.provenance.ram_budget_source = budget.source_text();
  }
  return measuring;
}

v0::Progress progress_of(const engine::ProgressSnapshot& snapshot) {
  return {.done = snapshot.done.matrices,
          .total = snapshot.total.matrices,
          .failed = snapshot.failed,
          .bytes_done = snapshot.done.bytes,
          .bytes_total = snapshot.total.bytes,
          .elapsed_seconds = snapshot.elapsed_seconds,
          .remaining_seconds = engine::remaining_seconds(snapshot),
          .current = snapshot.current};
}

}  // namespace

v0::Outcome v0::measure(const Model& model, const std::filesystem::path& out,
                        const MeasureSettings& settings, const Hooks& hooks) {
  engine::RunHooks run_hooks;
  run_hooks.stop = hooks.stop;
  run_hooks.message = hooks.message;
  if (hooks.progress) {
    run_hooks.progress = [&](const engine::ProgressSnapshot& snapshot) {
      hooks.progress(progress_of(snapshot));
    };
  }
  library::prepare_arithmetic();
  engine::RunOutcome outcome;
  try {
    outcome = commands::measure_model(settings_of(model, out, settings), run_hooks);
  } catch (const Stopped&) {  // while the model was opened
    outcome.stopped = true;
    outcome.exit_code = ExitCode::kStoppedEarly;
  }
  return {.exit_code = outcome.exit_code,
          .total = outcome.total,
          .measured_now = outcome.measured_now,
          .done_before = outcome.done_before,
          .failed = outcome.failed,
          .unsupported = outcome.unsupported,
          .not_finite = outcome.not_finite,
          .escalated = outcome.escalated,
          .stopped = outcome.stopped,
          .seconds = outcome.seconds,
          .troubles = std::move(outcome.troubles)};
}

}  // namespace vindex
