// Owns the storage of band matrices on the device, which the first stage of tridiagonalisation
// writes and the second reads. It is the host's (host/cpu/band/simd_band_reduction.hpp):
//
//   element (i, j) of the lower triangle, 0 <= i - j < 2 kBand, at j * kBandStride + i,
//
// so that every 32 x 32 window is a plain array with kBandStride between its columns, and the
// diagonal is every (kBandStride + 1)th element. The first stage fills 0 <= i - j <= kBand and
// writes zero everywhere else: to the room for bulges and to the columns behind the last, which
// stand for a matrix that goes on with zeros.
#pragma once

#include "core/integers.hpp"

#include <cstdint>

namespace vindex::kernels {

/// Subdiagonals that the first stage leaves.
inline constexpr std::int64_t kBand = 32;
/// Distance of neighbouring columns.
inline constexpr std::int64_t kBandStride = 2 * kBand;
/// Zero columns behind the last, for windows that reach over the end.
inline constexpr std::int64_t kBandTail = 3 * kBand;

/// n rounded up to whole blocks: the order of the padded matrix.
VINDEX_HD constexpr std::int64_t band_order(std::int64_t n) {
  return ceil_divide(n, kBand) * kBand;
}

/// Elements of one matrix's band, and the distance between those of a batch: a multiple of kBand.
VINDEX_HD constexpr std::int64_t band_elements(std::int64_t order) {
  return (order + kBandTail) * (kBandStride + 1);
}

/// Where element (row, column) of the lower triangle is.
VINDEX_HD constexpr std::int64_t band_index(std::int64_t row, std::int64_t column) {
  return column * kBandStride + row;
}

}  // namespace vindex::kernels
