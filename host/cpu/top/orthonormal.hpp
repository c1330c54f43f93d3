// Owns what subspace methods do with their bases: make them orthonormal, turn them.
#pragma once

#include "cpu/workspace/workspace.hpp"

#include <algorithm>
#include <cstdint>

namespace vindex::cpu {

/// Orthonormal columns with the span of `columns` (rows x count, column-major, count <= rows);
/// where they are dependent, others complete them. Source: LAPACK dgeqrf, dorgqr.
void orthonormalise(double* columns, std::int64_t rows, std::int64_t count, Workspace& workspace);
std::uint64_t orthonormal_bytes(std::int64_t count);

/// The first `wanted` columns of matrix (rows x count, column-major) = matrix * the first `wanted`
/// columns of rotation (count x count), by row blocks through `scratch`, which holds at least one
/// row of them.
void rotate(double* matrix, std::int64_t rows, std::int64_t count, const double* rotation,
            std::int64_t wanted, WorkArray<double>& scratch);

/// Columns that an iteration carries for the `count` wanted of `order`: those and their guard.
constexpr std::int64_t carried_columns(std::int64_t count, std::int64_t order) {
  return std::min(order, count + std::max<std::int64_t>(8, count / 4));
}

}  // namespace vindex::cpu
