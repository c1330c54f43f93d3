// Owns the arithmetic that self-tests are judged by: textbook methods in float64 on the host, for
// small matrices. No numerical library, so that one that is wrong on a machine cannot judge.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::kernels {

/// Eigenvalues, ascending, of a symmetric tridiagonal matrix: bisection by Sturm counts, each value
/// within a few eps of the largest. `off_diagonal` has one element fewer, or one that is not used.
/// Source: Golub and Van Loan, Matrix Computations, 8.4.
std::vector<double> reference_tridiagonal_values(std::span<const double> diagonal,
                                                 std::span<const double> off_diagonal);

/// Eigenvalues, ascending, of `batch` symmetric n x n matrices, one after the other: Householder
/// reflections to a tridiagonal matrix (the same, 8.3), then the above. Reads lower triangles.
std::vector<double> reference_values(std::span<const double> matrices, std::int64_t n,
                                     std::int64_t batch);

/// Eigenvalues, ascending, of a symmetric n x n matrix whose elements more than `width` below the
/// diagonal are zero: rotations that take one subdiagonal element away and push what that makes
/// down, then the above. n^2 width steps. Reads the lower triangle. Source: Rutishauser, "On Jacobi
/// rotation patterns" (1963); Golub and Van Loan, 8.3.
std::vector<double> reference_band_values(std::vector<double> matrix, std::int64_t n,
                                          std::int64_t width);

/// The p x p matrix W^T W of row-major rows x cols weights (`over_rows`, p = cols) or W W^T
/// (p = rows); both triangles.
std::vector<double> reference_gram(std::span<const double> weights, std::int64_t rows,
                                   std::int64_t cols, bool over_rows);

}  // namespace vindex::kernels
