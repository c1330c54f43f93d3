// Owns what follows the last layer of a trace: logits, for who wants them.
#pragma once

#include "forward_pass.hpp"
#include "trace_observer.hpp"
#include "trace_prompts.hpp"

#include "engine/job_runner.hpp"
#include "input/bulk_reader.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vindex::jobs {

/// How it ended, and what was read.
struct TraceEndOutcome {
  bool stopped = false;
  input::ReadStatistics reading;
};

/// Runs `states`, which the last layer left (before the final norm), through the output matrix
/// where an observer wants logits. `options` as of run_forward(), `held` with the states among it;
/// `threads`: of sums on the host. Errors: those of trace_logits() and of reading weights;
/// ConfigurationError E-BUDGET (78).
TraceEndOutcome finish_trace(const ForwardModel& model, const TracePrompts& prompts,
                             const TokenRows& states, const ForwardOptions& options,
                             std::int32_t threads, std::span<TraceObserver* const> observers,
                             const engine::RunHooks& hooks);

}  // namespace vindex::jobs
