// Owns the top-K singular vectors on request: a subspace on the Gram matrix, then exact Ritz
// vectors, residuals and the other side from one more pass over the weights.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Bytes for `wanted` vectors.
std::uint64_t vectors_bytes(const SvdPlan& plan, std::int32_t wanted);

/// The `wanted` (at most p) largest singular triplets with s > 0:
/// statistics/spectrum/singular_triplets.hpp.
SingularVectors singular_vectors(TileReader& reader, const SvdPlan& plan, std::int32_t wanted,
                                 bool transposed, Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
