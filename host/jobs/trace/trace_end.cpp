// Owns the stage of the output matrix.
#include "trace_end.hpp"

#include "stage_inputs.hpp"
#include "trace_logits.hpp"
#include "trace_plan.hpp"

#include "engine/matrix_pass.hpp"
#include "engine/memory_budget.hpp"

#include <algorithm>
#include <vector>

namespace vindex::jobs {

TraceEndOutcome finish_trace(const ForwardModel& model, const TracePrompts& prompts,
                             const TokenRows& states, const ForwardOptions& options,
                             std::int32_t threads, std::span<TraceObserver* const> observers,
                             const engine::RunHooks& hooks) {
  const bool wanted =
      std::any_of(observers.begin(), observers.end(),
                  [](const TraceObserver* observer) { return observer->wants_logits(); });
  if (!wanted) {
    return {};
  }
  const model::Transformer& transformer = model.transformer;
  const std::int64_t output = transformer.output.matrix;
  const std::vector<TraceStage> stages = {{.matrices = {output}, .name = "logits", .cost = 1.0}};
  std::vector<engine::RowWork> works = stage_works(stages, model.index, model.backend);
  works.front().reading = engine::Reading::kWhole;
  const model::MatrixRecord& matrix = model.index.matrices[static_cast<std::size_t>(output)];
  const std::uint64_t linear =
      model.backend.linear_bytes(matrix.stored_rows(), matrix.stored_cols());
  const std::uint64_t whole = works.front().packed + input::kDirectAlignment;
  const std::uint64_t weights = std::min(whole, works.front().streamed);
  const auto plan_within = [&](std::uint64_t bytes) {
    return plan_logits(prompts.tokens(), transformer.hidden, transformer.vocabulary, 1, bytes);
  };
  const std::uint64_t beside = options.held + linear;
  const LogitsPlan least = plan_within(0);
  engine::require_budget(options.ram_budget, "making logits", beside + weights + least.bytes);
  const std::uint64_t left = options.ram_budget - beside;
  const LogitsPlan plan = plan_within(left - (left >= whole + least.bytes ? whole : weights));

  const engine::PassOptions pass = {.threads = 1,
                                    .ram_budget = options.ram_budget,
                                    .held = beside + plan.bytes,
                                    .in_order = true,
                                    .reading = options.reading};
  const engine::ModelViews views = {{&model.files, &model.index}};
  const engine::RunOutcome done = engine::pass_over(
      views, works, pass,
      [&](std::size_t /*i*/, engine::UnitStream& unit) {
        StageInputs inputs(unit, stages.front().matrices, model.files);
        const LayerTools tools{transformer, inputs, model.backend, unit.stop_token()};
        const LogitsOf of{tools, states};
        (void)trace_logits(of, nullptr, {prompts.ids, prompts.lengths}, plan, threads, observers);
        inputs.finish();
      },
      hooks);
  return {.stopped = done.stopped, .reading = done.reading};
}

}  // namespace vindex::jobs
