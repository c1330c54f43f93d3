// Owns the top-K singular vectors on request: subspace on the Gram, then exact Ritz vectors,
// residuals and the other side from one more pass over the weights.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "seam.hpp"
#include "workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Bytes for `wanted` vectors.
std::uint64_t vectors_bytes(const SvdPlan& plan, std::int32_t wanted);

/// The `wanted` (at most p) largest singular triplets with s > 0. residual is |A^T u - s v|, where
/// u = A v / s (so |A v - s u| is rounding); gap the distance to the nearest other value. Vectors
/// inside a cluster are a basis of its subspace, no more: the gap says so.
SingularVectors singular_vectors(TileReader& reader, const SvdPlan& plan, std::int32_t wanted,
                                 bool transposed, Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
