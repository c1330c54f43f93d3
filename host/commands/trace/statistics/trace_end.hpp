// Owns what follows the last layer of a trace: logits, for who wants them, and what they say of the
// tokens that came.
#pragma once

#include "trace_logits.hpp"

#include "commands/trace/forward/forward_pass.hpp"
#include "commands/trace/tokens/trace_observer.hpp"
#include "commands/trace/tokens/trace_prompts.hpp"
#include "engine/run/job_runner.hpp"
#include "input/bulk/read_statistics.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace vindex::commands {

/// A model and the states that its last layer left (before the final norm).
struct TracedModel {
  const ForwardModel& model;
  const TokenRows& states;
};

/// How it ended, and what was read.
struct TraceEndOutcome {
  bool stopped = false;
  input::ReadStatistics reading;
  std::optional<LogitsFindings> findings;  ///< where logits were made
};

/// Throws ConfigurationError E-BUDGET (78) where finish_trace() of these models (one, or two that
/// are compared) would.
void require_end_budget(std::span<const ForwardModel* const> models, const TracePrompts& prompts,
                        const ForwardOptions& options);

/// Runs the states of `a` through its output matrix where `losses` are asked for or an observer
/// wants logits; those of `b`, where it is not null, through its own beside them, the two compared.
/// `options` as of run_forward(), `reserved_bytes` with the states among it; `threads`: of sums on
/// the host. Errors: those of trace_logits() and of reading weights; ConfigurationError E-BUDGET
/// (78).
TraceEndOutcome finish_trace(const TracedModel& a, const TracedModel* b, bool losses,
                             const TracePrompts& prompts, const ForwardOptions& options,
                             std::int32_t threads, std::span<TraceObserver* const> observers,
                             const engine::RunHooks& hooks);

}  // namespace vindex::commands
