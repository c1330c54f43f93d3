// Owns the `fast` mode: the largest 64 singular values with certified bounds for var_at_k and the
// stable rank.
#pragma once

#include "cpu_routes.hpp"
#include "seam.hpp"

namespace vindex::cpu {

/// Bytes of the iteration, the projection and the certificate, the Gram matrix included.
std::uint64_t fast_bytes(const SvdPlan& plan);

/// The largest min(64, p) values by a filtered block iteration and bounds proved for them. Without
/// `certify` the bounds are left out. `sigma` is empty where a weight is not finite or all are 0.
Finding by_chebyshev(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                     bool certify, Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
