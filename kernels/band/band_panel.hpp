// Owns the factorisation of panels in the first stage of tridiagonalisation: a tall block of kBand
// columns becomes Q R by Householder reflections, one block of threads per matrix, the columns in
// registers.
#pragma once

#include "band_layout.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Distance of neighbouring rows of factors: V (kBand columns), then W (kBand).
inline constexpr std::int64_t kFactorStride = 2 * kBand;

/// One panel of every matrix of a batch.
template <typename Real>
struct Panel {
  /// Column-major with `order` between columns, `order` kBand per matrix; destroyed.
  Real* columns;
  Real* factors;       ///< gets V: row-major, kFactorStride between rows, `order` rows per matrix
  Real* taus;          ///< gets kBand values per matrix
  Real* band;          ///< gets R below the diagonal block
  std::int64_t order;  ///< of the whole matrices
  std::int64_t rows;   ///< of the panel
  std::int64_t start;  ///< column of the matrix that the panel begins at
  std::int64_t batch;
};

/// Rows that a panel may have.
std::int64_t largest_panel_rows();

/// Factors the panels on `stream`. Q = I - V T V^T with V unit lower trapezoidal; a column whose
/// part below the pivot is below the square root of the range (2^-40 of the largest entry of a
/// scaled matrix in float32, 2^-400 in float64) is taken for zero: tau and the column of V are 0.
/// Entries of magnitude about 1 at most. Not-a-number spreads over its own matrix alone.
/// Source: LAPACK geqr2 and larfg; kWidth columns at a time, left-looking between those groups.
template <typename Real>
void factor_panels(const Panel<Real>& panel, cudaStream_t stream);

/// Largest order that plan_band_reduction() takes.
std::int64_t largest_band_order();

}  // namespace vindex::kernels
