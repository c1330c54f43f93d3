// Owns the pass over the weights, in float64, that gives the singular values of W on a given
// subspace, and how far its directions are from singular vectors of W. Unlike top/projection.hpp it
// never squares a value: the smallest come out to rounding of the largest in the subspace.
#pragma once
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <vector>

namespace vindex::cpu {

/// All arrays column-major; columns belong to `sigma`, descending.
struct TailValues {
  std::vector<double> sigma;   ///< singular values of W V
  WorkArray<double> basis;     ///< V, p x count, orthonormal
  WorkArray<double> residual;  ///< p x count: W^T W v - sigma^2 v
};

/// `start`: p x count, column-major (orthonormalised here). `seconds` grows by the time spent in
/// products. sigma is empty where the iteration for them fails. Source: QR by row blocks (Demmel,
/// Grigori, Hoemmen, Langou 2012), LAPACK dgeqrf, dgesvd.
TailValues tail_values(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       WorkArray<double> start, std::int64_t count, Workspace& workspace,
                       double& seconds);

/// Bytes that it takes, its result included.
std::uint64_t tail_values_bytes(const SvdPlan& plan, std::int64_t count);

}  // namespace vindex::cpu
