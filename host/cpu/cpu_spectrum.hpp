// Owns the steps by which the CPU finds the singular values of one matrix: what a plan begins with
// and what judgements ask for next.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

namespace vindex::cpu {

/// Fills `report` (metrics contract: accuracy table and escalation). Errors: OutOfMemory beyond the
/// workspace, read errors of a streamed input.
void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
