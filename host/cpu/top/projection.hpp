// Owns the exact half of a subspace method: one pass over the weights in float64 gives the Ritz
// pairs of W^T W (short side) within a given subspace, their residual vectors, and on request the
// left vectors. Errors of a float32 Gram do not enter.
//
// Also owns the pass that multiplies the weights and their transpose with the columns of a basis,
// in float64 and piece by piece.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace vindex::cpu {

/// Takes rows first.. of W basis (tall orientation): length x count, column-major.
using UseImage = std::function<void(const double* image, std::int64_t length, std::int64_t first)>;

/// Makes `basis` (p x count, column-major) orthonormal, hands W basis on piece by piece through
/// `image` (room for plan.chunk x count) and leaves W^T W basis in `normal` (p x count). `seconds`
/// grows by the time spent in products.
void normal_products(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                     std::int64_t count, WorkArray<double>& basis, WorkArray<double>& image,
                     WorkArray<double>& normal, Workspace& workspace, double& seconds,
                     const UseImage& use);

/// Bytes that it takes beside its arguments.
std::uint64_t normal_products_bytes(const SvdPlan& plan, std::int64_t count);

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
