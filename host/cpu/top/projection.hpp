// Owns the exact half of a subspace method: one pass over the weights in float64 gives the Ritz
// pairs of W^T W (short side) within a given subspace, their residual vectors, and on request the
// left vectors. Errors of a float32 Gram do not enter.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "workspace.hpp"

#include <cstdint>
#include <vector>

namespace vindex::cpu {

/// All arrays column-major; columns belong to `values`, descending.
struct Projection {
  std::int64_t count = 0;
  std::vector<double> values;  ///< Ritz values of W^T W: lower bounds of its largest eigenvalues
  WorkArray<double> basis;     ///< p x count, orthonormal
  WorkArray<double> residual;  ///< p x count: W^T W v - value v
  WorkArray<double> image;     ///< n x count: W v (tall orientation), only where asked for
};

/// Bytes that project() takes, its result included.
std::uint64_t projection_bytes(const SvdPlan& plan, std::int64_t count, bool with_image);

/// `start`: p x count, column-major, independent columns (orthonormalised here). `seconds` grows by
/// the time spent in products.
Projection project(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                   WorkArray<double> start, std::int64_t count, bool with_image,
                   Workspace& workspace, double& seconds);

/// The first `count` columns of length p as doubles.
WorkArray<double> widened(const float* columns, std::int64_t p, std::int64_t count,
                          Workspace& workspace);

}  // namespace vindex::cpu
