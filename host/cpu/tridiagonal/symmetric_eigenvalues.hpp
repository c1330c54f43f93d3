// Owns the eigenvalues of a symmetric matrix in memory, for statistics of covariances and Gram
// matrices. Float64 throughout, on the host.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::cpu {

/// Eigenvalues, ascending, of the symmetric n x n `matrix` (whole, finite), which is destroyed.
/// Reduction to tridiagonal form (two-stage where that is faster, else LAPACK dsytrd), then
/// bisection: errors of a few n eps64 times the largest in size. Errors: expects() on another size;
/// OutOfMemory; Stopped.
std::vector<double> symmetric_eigenvalues(std::span<double> matrix, std::int64_t n,
                                          const std::stop_token& stop = {});

/// Memory that it takes beside the matrix, the values among it; an upper bound.
std::uint64_t symmetric_eigenvalues_bytes(std::int64_t n);

}  // namespace vindex::cpu
