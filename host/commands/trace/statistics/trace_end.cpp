// Owns the stage of the output matrix, or of both.
#include "trace_end.hpp"

#include "commands/trace/forward/stage_inputs.hpp"
#include "commands/trace/forward/trace_plan.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/run/matrix_pass.hpp"

#include <algorithm>
#include <vector>

namespace vindex::commands {

namespace {

std::vector<std::int64_t> output_of(const ForwardModel& model) {
  return {model.transformer.output.matrix};
}

std::uint64_t linear_of(const ForwardModel& model) {
  const model::MatrixRecord& matrix =
      model.index.matrices[static_cast<std::size_t>(model.transformer.output.matrix)];
  return model.backend.linear_bytes(matrix.stored_rows(), matrix.stored_cols());
}

/// One row that has the output matrices of all models.
std::vector<engine::RowWork> logits_works(std::span<const ForwardModel* const> models) {
  std::vector<engine::RowWork> works;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const ForwardModel& model = *models[i];
    const std::vector<TraceStage> stages = {
        {.matrices = output_of(model), .name = "logits", .cost = 1.0}};
    std::vector<engine::RowWork> own = stage_works(stages, model.index, model.backend);
    if (i == 0) {
      works = std::move(own);
      works.front().reading = engine::Reading::kWhole;
      continue;
    }
    engine::RowWork& all = works.front();
    all.matrices.push_back({static_cast<std::int32_t>(i), own.front().matrices.front().matrix});
    all.read_bytes += own.front().read_bytes;
    all.slot = std::max(all.slot, own.front().slot);
    all.packed += own.front().packed;
    all.streamed += own.front().streamed;
  }
  return works;
}

/// The stage and its share of the budget.
struct EndPlan {
  std::vector<engine::RowWork> works;
  LogitsPlan logits;
  std::uint64_t reserved_bytes = 0;  ///< what is no weights
};

/// Errors: E-BUDGET.
EndPlan plan_end(std::span<const ForwardModel* const> models, const TracePrompts& prompts,
                 const ForwardOptions& options) {
  std::uint64_t linear = 0;
  std::int64_t hidden = 0;
  for (const ForwardModel* const model : models) {
    linear = std::max(linear, linear_of(*model));
    hidden = std::max(hidden, model->transformer.hidden);
  }
  EndPlan plan;
  plan.works = logits_works(models);
  const std::uint64_t whole = plan.works.front().packed + input::kDirectAlignment;
  const std::uint64_t weights = std::min(whole, plan.works.front().streamed);
  const auto plan_within = [&](std::uint64_t bytes) {
    return plan_logits(prompts.tokens(), hidden, models.front()->transformer.vocabulary,
                       std::ssize(models), bytes);
  };
  const std::uint64_t beside =
      options.reserved_bytes + linear + kTraceBeside + prompts.ids.size() * sizeof(std::int32_t);
  const std::uint64_t least = plan_within(0).bytes;
  engine::require_budget(options.ram_budget, "making logits", beside + weights + least);
  const std::uint64_t left = options.ram_budget - beside;
  plan.logits = plan_within(left - (left >= whole + least ? whole : weights));
  plan.reserved_bytes = beside + plan.logits.bytes;
  return plan;
}

}  // namespace

void require_end_budget(std::span<const ForwardModel* const> models, const TracePrompts& prompts,
                        const ForwardOptions& options) {
  (void)plan_end(models, prompts, options);
}

TraceEndOutcome finish_trace(const TracedModel& a, const TracedModel* b, bool losses,
                             const TracePrompts& prompts, const ForwardOptions& options,
                             std::int32_t threads, std::span<TraceObserver* const> observers,
                             const engine::RunHooks& hooks) {
  const bool wanted =
      losses || b != nullptr ||
      std::any_of(observers.begin(), observers.end(),
                  [](const TraceObserver* observer) { return observer->wants_logits(); });
  if (!wanted) {
    return {};
  }
  std::vector<const ForwardModel*> models = {&a.model};
  if (b != nullptr) {
    models.push_back(&b->model);
  }
  engine::ModelViews views;
  for (const ForwardModel* const model : models) {
    views.push_back({&model->files, &model->index});
  }
  const EndPlan plan = plan_end(models, prompts, options);
  const engine::PassOptions pass = {
      .threads = 1,
      .ram_budget = options.ram_budget,
      .reserved_bytes = plan.reserved_bytes,
      .in_order = true,
      .reading = options.reading,
      .staging = [&](std::size_t bytes) { return a.model.backend.make_staging(bytes); }};
  engine::RunHooks own = hooks;
  if (hooks.progress) {
    own.progress = [&](engine::ProgressSnapshot seen) {
      seen.noun = "stages";
      seen.current = "logits";
      hooks.progress(seen);
    };
  }
  TraceEndOutcome out;
  const engine::RunOutcome done = engine::pass_over(
      views, plan.works, pass,
      [&](std::size_t /*i*/, engine::UnitStream& unit) {
        const std::vector<std::int64_t> output_a = output_of(a.model);
        StageInputs inputs(unit, output_a, a.model.files);
        const LayerTools tools{a.model.transformer, inputs, a.model.backend, unit.stop_token()};
        const LogitsOf of_a{tools, a.states};
        if (b == nullptr) {
          out.findings = trace_logits(of_a, nullptr, prompts, plan.logits, threads, observers);
        } else {
          const std::vector<std::int64_t> output_b = output_of(b->model);
          StageInputs others(unit, output_b, b->model.files, 1);
          const LayerTools other_tools{b->model.transformer, others, b->model.backend,
                                       unit.stop_token()};
          const LogitsOf of_b{other_tools, b->states};
          out.findings = trace_logits(of_a, &of_b, prompts, plan.logits, threads, observers);
          others.finish();
        }
        inputs.finish();
      },
      own);
  out.stopped = done.stopped;
  out.reading = done.reading;
  return out;
}

}  // namespace vindex::commands
