// Owns the eigenvalues of a symmetric matrix: reduction to tridiagonal form in the matrix's own
// precision, eigenvalues of that form in float64. float64 for the second stage costs little and
// gains 10 to 60 times in accuracy.
#pragma once

#include "cpu/workspace/workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

/// True where reduce_to_tridiagonal() takes the two-stage kernel rather than LAPACK.
bool is_reduced_by_band(std::int64_t p, bool library);

/// Bytes that reduce_to_tridiagonal() takes for elements of `size` bytes.
std::uint64_t tridiagonal_bytes(std::int64_t p, std::size_t size, bool library);

/// Reduces the p x p matrix whose upper triangle is in `matrix` (column-major, may be destroyed) to
/// diagonal d[p] and subdiagonal e[p]. `library` true: LAPACK ssytrd, dsytrd; else
/// simd_tridiagonal.hpp where that is faster.
void reduce_to_tridiagonal(float* matrix, std::int64_t p, double* d, double* e, bool library,
                           Workspace& workspace);
void reduce_to_tridiagonal(double* matrix, std::int64_t p, double* d, double* e, bool library,
                           Workspace& workspace);

/// Eigenvalues, ascending, in `d`; `e` is destroyed. False where the iteration did not converge.
/// `library` true: LAPACK dsterf (QL/QR without square roots); else simd_bisection.hpp.
bool solve_tridiagonal(double* d, double* e, std::int64_t p, bool library, Workspace& workspace);

}  // namespace vindex::cpu
