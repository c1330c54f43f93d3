// Owns the pass over the trailing matrix in the first stage of tridiagonalisation: the update of
// one panel and the product with the reflectors of the next, so that each element of the lower
// triangle is read and written once per kBand columns.
//
// Per panel with r rows behind it and n = order, in elements: the matrix r^2 / 2 read and written,
// factors 3 kBand / strip_rows of that (from the L2 cache), partial products kBand / strip_rows.
// Per element 2 kBand multiply-adds of the update and 2 kBand of the product, which uses it for its
// row and for its column. Summed over the panels: n^3 / (3 kBand) elements moved and 4 n^3 / 3
// floating-point operations, half of what a full square would cost.
#pragma once

#include "band_panel.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// One pass over every matrix of a batch. Rows and columns count from the trailing matrix, which
/// begins at `start` of the whole one.
template <typename Real>
struct TrailingPass {
  Real* matrices;       ///< row-major order x order; lower triangle and diagonal blocks in use
  const Real* pending;  ///< V and W of the panel before, row kBand being row 0 here; or null
  /// Per matrix, what no entry of W exceeds in magnitude; read where `pending` is.
  const Real* pending_bounds;
  const Real* factors;  ///< V of this panel
  Real* products;       ///< gets the part of A V that rows of the lower triangle give
  Real* partials;       ///< per strip: what its columns give; see strip_reaches()
  std::int64_t order;
  std::int64_t start;
  std::int64_t rows;
  std::int64_t strip_rows;
  std::int64_t batch;
};

/// Arithmetic of the products.
enum class BandArithmetic {
  kPlain,   ///< multiply-add of the CUDA cores
  kTensor,  ///< tensor cores: three products of binary16 or tf32 parts in float32, DMMA in float64
};

/// Strips of `strip_rows` rows that `rows` rows take.
constexpr std::int64_t strip_count(std::int64_t rows, std::int64_t strip_rows) {
  return (rows + strip_rows - 1) / strip_rows;
}

/// Rows per strip, a multiple of kBand, that fit `shared_bytes` of shared memory per block; the
/// more, the less is spent on partial products. 0 where not even kBand fit.
template <typename Real>
std::int64_t strip_rows_for(std::size_t shared_bytes, BandArithmetic arithmetic);

/// Elements of TrailingPass::partials per matrix.
constexpr std::int64_t partial_elements(std::int64_t order, std::int64_t strip_rows) {
  return strip_count(order, strip_rows) * order * kBand;
}

/// A <- A - V W^T - W V^T with the pending factors, then its product with the new V, in parts:
/// products = the rows' part, partials[strip] = the part that A's columns within the strip give to
/// the rows above. Blocks of a launch do not depend on each other, and sums have one order.
template <typename Real>
void update_and_multiply(const TrailingPass<Real>& pass, BandArithmetic arithmetic,
                         cudaStream_t stream);

}  // namespace vindex::kernels
