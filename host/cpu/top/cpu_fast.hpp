// Owns the `fast` mode: the largest 64 singular values with certified bounds for var_at_k and the
// stable rank.
#pragma once

#include "cpu_routes.hpp"
#include "seam.hpp"

#include <optional>

namespace vindex::cpu {

/// Bytes of the iteration, the projection and the certificate, the Gram matrix included.
std::uint64_t fast_bytes(const SvdPlan& plan);

/// The largest min(64, p) values by a filtered block iteration and bounds proved for them. Without
/// `certify` the bounds are left out. `sigma` is empty where a weight is not finite.
struct FastOutcome {
  Outcome outcome;
  SpectrumBounds bounds;
};
FastOutcome by_chebyshev(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                         bool certify, Workspace& workspace, MatrixReport& report);

/// Bound of the error of every s^2 of a float64 Gram: products by the usual bound, eigenvalues by
/// 100 p eps64 s_1^2.
double full_error_bound(const SvdPlan& plan, double sum_squares, double largest);

}  // namespace vindex::cpu
