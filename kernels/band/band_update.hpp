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
#include "trailing_pass.hpp"

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// Arithmetic of the products.
enum class BandArithmetic {
  kPlain,   ///< multiply-add of the CUDA cores
  kTensor,  ///< tensor cores: three products of binary16 or tf32 parts in float32, DMMA in float64
};

/// Rows per strip, a multiple of kBand, that fit `shared_bytes` of shared memory per block; the
/// more, the less is spent on partial products. 0 where not even kBand fit.
template <typename Real>
std::int64_t strip_rows_for(std::size_t shared_bytes, BandArithmetic arithmetic);

/// A <- A - V W^T - W V^T with the pending factors, then its product with the new V, in parts:
/// products = the rows' part, partials[strip] = the part that A's columns within the strip give to
/// the rows above. Blocks of a launch do not depend on each other, and sums have one order.
template <typename Real>
void update_and_multiply(const TrailingPass<Real>& pass, BandArithmetic arithmetic,
                         cudaStream_t stream);

}  // namespace vindex::kernels
