// Owns the eigenvalues of a symmetric tridiagonal matrix in float64: many shifts at once, in
// vector registers, in place of the serial QL/QR iteration of LAPACK's dsterf.
//
// Also owns the inner loop of the tridiagonal eigenvalue solver: leading principal minors of T - x
// I for many shifts x at once.
#pragma once

#include "cpu/simd/simd_level.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Shifts per call are padded to a multiple of this.
inline constexpr std::int64_t kSturmLanes = 32;

/// One unreduced symmetric tridiagonal block, scaled so that its norm is at most 2.
/// `off_squared[i]` couples rows i-1 and i; off_squared[0] = 0, all others >= 2^-110.
struct TridiagonalBlock {
  const double* diagonal = nullptr;
  const double* off_squared = nullptr;
  std::int64_t size = 0;
};

/// det(T - x I) = mantissa * 2^exponent for each shift, and, where `counts` is not null, the number
/// of eigenvalues below it (sign changes in the sequence of leading minors; Barth, Martin,
/// Wilkinson 1967, in product form with rescaling every 16 rows instead of quotients, which saves
/// the division).
/// Shapes    shifts, mantissas, exponents, counts: shift_count, a multiple of kSturmLanes.
/// Accuracy  results are those of a matrix whose entries differ by a few eps64 relative from T's.
/// Speed     all levels give the same bits: no fused multiply-add in any of them.
void sturm_minors(const TridiagonalBlock& block, std::int64_t shift_count, const double* shifts,
                  double* mantissas, std::int64_t* exponents, std::int64_t* counts,
                  SimdLevel level);

/// All eigenvalues of the symmetric tridiagonal matrix T, ascending.
///
/// Shapes    diagonal and eigenvalues: n >= 0; off_diagonal: at least n - 1 (more is ignored).
/// Method    split where |e_i| <= eps64 ||T|| / 4; multisection by Sturm counts until every
///           interval holds one eigenvalue, as many shifts as eigenvalues not yet isolated; then
///           inverse quadratic interpolation on the determinant, safeguarded by bisection
///           (Chandrupatla 1997), all eigenvalues in step.
/// Accuracy  absolute error a few eps64 times ||T||, clusters and zeros included.
/// Result    the same bits for every level; a non-finite entry makes every value NaN.
/// Errors    expects() on sizes; Stopped, looked for at every evaluation of all shifts.
/// Speed     Zen 4, n = 2048: see bench/kernels_bench.
void tridiagonal_eigenvalues(std::span<const double> diagonal, std::span<const double> off_diagonal,
                             std::span<double> eigenvalues, SimdLevel level = best_simd_level(),
                             const std::stop_token& stop = {});

}  // namespace vindex::cpu
