// Owns what stands between the passes of the first stage of tridiagonalisation: from the reflectors
// V of a panel and the product Y = A V to W, so that A - V W^T - W V^T is Q^T A Q, and the columns
// of the next panel.
//
//   Q = I - V T V^T,   W = Y T + V C,   C = - T^T (V^T Y) T / 2.
//
// Sums over rows go by chunks whose results are added in order, whatever runs beside them.
#pragma once

#include "band_panel.hpp"
#include "band_update.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// A panel of every matrix of a batch on its way to the next. Rows count from `start`.
template <typename Real>
struct Factors {
  const Real* matrices;  ///< row-major order x order
  Real* factors;         ///< V in the first kBand columns; null before the first panel
  Real* products;        ///< rows' part of Y; completed
  const Real* partials;  ///< columns' parts; null where `products` is complete
  const Real* taus;
  Real* overlaps;  ///< scratch: overlap_elements() per matrix
  Real* small;     ///< scratch: T and C, 2 kBand^2 per matrix
  Real* bounds;    ///< gets, per matrix, what no entry of W exceeds in magnitude
  Real* columns;   ///< gets the next panel, column-major as in Panel
  Real* band;      ///< gets the diagonal block at `start`
  std::int64_t order;
  std::int64_t start;  ///< first row and column behind the panel
  std::int64_t rows;   ///< order - start
  std::int64_t strip_rows;
  std::int64_t batch;
};

/// Elements of Factors::overlaps per matrix.
template <typename Real>
std::int64_t overlap_elements(std::int64_t order);

/// Completes Y, forms T and C and bounds W.
template <typename Real>
void form_small_factors(const Factors<Real>& factors, BandArithmetic arithmetic,
                        cudaStream_t stream);

/// Stores the diagonal block at `start` in the band and the columns below it in `columns`, both
/// updated by this panel, whose W it forms; as they are where `factors` is null.
template <typename Real>
void advance(const Factors<Real>& factors, BandArithmetic arithmetic, cudaStream_t stream);

}  // namespace vindex::kernels
