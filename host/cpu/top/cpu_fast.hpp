// Owns `fast`'s proved route: the largest 64 singular values with certified bounds for var_at_k and
// the stable rank.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/step_result.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Bytes of the iteration, the projection and the certificate, the Gram matrix included.
std::uint64_t fast_bytes(const SvdPlan& plan);

/// The largest min(64, p) values by a filtered block iteration and bounds proved for them. Without
/// `certify` the bounds are left out. `sigma` is empty where a weight is not finite or all are 0.
statistics::StepResult by_chebyshev(TileReader& reader, const SvdPlan& plan,
                                    const TileChange& change, bool certify, Workspace& workspace,
                                    MatrixReport& report);

}  // namespace vindex::cpu
