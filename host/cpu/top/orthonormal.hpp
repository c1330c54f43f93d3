// Owns what subspace methods do with their bases: make them orthonormal, turn them.
#pragma once

#include "workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Orthonormal columns with the span of `columns` (rows x count, column-major, count <= rows);
/// where they are dependent, others complete them. Source: LAPACK dgeqrf, dorgqr.
void orthonormalise(double* columns, std::int64_t rows, std::int64_t count, Workspace& workspace);
std::uint64_t orthonormal_bytes(std::int64_t count);

/// matrix (rows x count, column-major) = matrix * rotation (count x count), by row blocks through
/// `scratch`, which holds at least one row.
void rotate(double* matrix, std::int64_t rows, std::int64_t count, const double* rotation,
            WorkArray<double>& scratch);

}  // namespace vindex::cpu
