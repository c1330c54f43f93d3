// Owns the pass that multiplies the weights and their transpose with the columns of a basis, in
// float64 and piece by piece.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "workspace.hpp"

#include <cstdint>
#include <functional>

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

}  // namespace vindex::cpu
