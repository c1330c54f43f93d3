// Owns a pass over the trailing matrix: what it updates, what it multiplies, and the strips in
// which blocks of threads take it.
#pragma once

#include "band_layout.hpp"

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

/// Strips of `strip_rows` rows that `rows` rows take.
constexpr std::int64_t strip_count(std::int64_t rows, std::int64_t strip_rows) {
  return (rows + strip_rows - 1) / strip_rows;
}

/// Elements of TrailingPass::partials per matrix.
constexpr std::int64_t partial_elements(std::int64_t order, std::int64_t strip_rows) {
  return strip_count(order, strip_rows) * order * kBand;
}

}  // namespace vindex::kernels
