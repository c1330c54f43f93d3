// Owns the step by QR and a bidiagonal form, whose error does not depend on the condition number.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/step_result.hpp"

#include <cstdint>

namespace vindex::cpu {

/// QR. `before`: what a Gram of float64 sums gave, or nothing where none was formed; of its values
/// the `lost` smallest are found again where that is cheaper, else (and for 0) all.
statistics::StepResult by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                             statistics::StepResult before, std::int64_t lost, Workspace& workspace,
                             MatrixReport& report);

}  // namespace vindex::cpu
