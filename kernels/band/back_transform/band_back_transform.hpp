// Owns the orthogonal factor of the first stage of tridiagonalisation: how the matrix that was
// reduced keeps it, and products with it.
//
// A = Q B Q^T with Q = (I - V_0 T_0 V_0^T) (I - V_1 T_1 V_1^T) ...: T of the panel at column
// `start` stays in the diagonal block there, V below it, where the columns were that it cleared.
// Nothing reads those again, so that keeping Q takes no memory.
#pragma once

#include "kernels/band/band_factors.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Writes the panel before factors.start, whose V, T and C are formed, to where it stays.
template <typename Real>
void keep_panel(const Factors<Real>& factors, Real* matrices, cudaStream_t stream);

/// A product takes so many columns at a time.
inline constexpr std::int64_t kBackTransformColumns = 8;

/// Columns of a batch, column-major: slot s at s * stride, `leading` between columns.
struct TransformedColumns {
  double* data = nullptr;
  std::int64_t leading = 0, stride = 0;
  std::int64_t rows = 0;  ///< those beyond are taken for zero, and not written
};

template <typename Real>
struct BackTransform {
  const Real* matrices = nullptr;       ///< as reduce_to_band() left them with keep_factor
  const std::int64_t* which = nullptr;  ///< on the device: the matrix of each slot
  std::int64_t order = 0;
  std::int64_t columns = 0;  ///< a multiple of kBackTransformColumns
  std::int64_t slots = 0;    ///< at most 65535
  bool transposed = false;
  TransformedColumns from, to;  ///< may be the same
  Real* scratch = nullptr;      ///< slots x columns x order
};

/// to = Q from, or Q^T from, for every slot, in the arithmetic of Real. Ordered on `stream`. Bits
/// of a slot depend on its matrix and columns alone.
/// Accuracy  backward stable: a few eps of Real times the columns' norms.
template <typename Real>
void back_transform(const BackTransform<Real>& turn, cudaStream_t stream);

}  // namespace vindex::kernels
