// Owns the measurement of ONE matrix on the CPU: it computes the steps that measure/judgement.hpp
// asks for. Everything is single-threaded and deterministic.
#pragma once

#include "plan/svd_plan.hpp"
#include "seam.hpp"
#include "workspace.hpp"

namespace vindex::cpu {

/// Fills `report` (metrics contract: accuracy table and escalation). Errors: OutOfMemory beyond the
/// workspace, read errors of a streamed input.
void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
