// Owns the eigenvalues of a symmetric tridiagonal matrix in float64: many shifts at once, in
// vector registers, in place of the serial QL/QR iteration of LAPACK's dsterf.
#pragma once

#include "cpu/simd/simd_level.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::cpu {

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
