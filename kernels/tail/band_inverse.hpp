// Owns solving with symmetric positive definite bands on the device: their Cholesky factors by
// blocks of kBand and solves with many columns; and the element-wise steps of a search for the
// smallest singular vectors between its products. Host sibling: host/cpu/tail/tail_pass.hpp.
#pragma once

#include "kernels/band/band_layout.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels {

/// Bands of a batch that reduce_to_band() left, of which each slot takes one.
template <typename Real>
struct BandSystem {
  const Real* bands = nullptr;          ///< band_elements(order) apart
  const std::int64_t* which = nullptr;  ///< on the device: the band of each slot
  std::int64_t n = 0;                   ///< true order; beyond it stands a large diagonal
  std::int64_t order = 0;
  std::int64_t slots = 0;  ///< at most 65535
};

/// Doubles of a factor: per block of columns the inverse of the factor's diagonal block and the
/// block below, both column-major.
constexpr std::int64_t band_factor_elements(std::int64_t order) { return 2 * order * kBand; }

/// Factors band + shift I of every slot, in float64. `shifts`, on the device, one per slot; where
/// rounding left the band with an eigenvalue below -shift, ten times it is tried, three times.
/// info: 0, or 1 where all that failed and the factor means nothing. Ordered on `stream`.
template <typename Real>
void factor_bands(const BandSystem<Real>& system, const double* shifts, double* factors, int* info,
                  cudaStream_t stream);

/// Columns that a solve takes at a time.
inline constexpr std::int64_t kSolveColumns = 8;

/// columns = (band + shift I)^-1 columns for `count` columns, a multiple of kSolveColumns, of each
/// slot: order rows, column-major, `leading` between columns, `stride` between slots. Ordered on
/// `stream`. Bits of a slot depend on its factor and columns alone.
void solve_bands(const double* factors, std::int64_t order, std::int64_t slots, double* columns,
                 std::int64_t leading, std::int64_t stride, std::int64_t count,
                 cudaStream_t stream);

/// The same fixed pseudo-random block (rows x count, column-major, `leading` between columns) in
/// every one of `slots`, `stride` apart.
void fill_start(double* columns, std::int64_t rows, std::int64_t count, std::int64_t leading,
                std::int64_t stride, std::int64_t slots, cudaStream_t stream);

/// correction = basis - scales[slot] * correction, `elements` in each slot.
void subtract_correction(const double* basis, const double* scales, double* correction,
                         std::int64_t elements, std::int64_t slots, cudaStream_t stream);

/// norms[j] = the norm of column j of `columns` contiguous ones of `rows`.
void column_norms(const double* from, std::int64_t rows, std::int64_t columns, double* norms,
                  cudaStream_t stream);

}  // namespace vindex::kernels
