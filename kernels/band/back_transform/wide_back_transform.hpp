// Owns back_transform() for many columns of a float32 reduction: 32 columns at a time by products
// of binary16 parts on the tensor cores, so that the reflectors are read once where eight columns
// at a time read them four times, and are read ahead.
#pragma once

#include "band_back_transform.hpp"

#include "core/integers.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace vindex::kernels {

/// Columns that a block of threads takes. Other numbers are allowed, and cost as much as the next
/// multiple.
inline constexpr std::int64_t kWideColumns = 32;

/// Shared memory of a block of `warps`: two stages of two tiles each, T of two panels, sums and
/// what T makes of them, scales.
constexpr std::size_t wide_transform_shared_bytes(int warps) {
  constexpr std::size_t kTileBytes = kBand * kBand * sizeof(float);
  return (static_cast<std::size_t>(warps) * 4 + 4) * kTileBytes + 2 * kWideColumns * sizeof(double);
}
/// Warps of a block where a block may ask for `shared_bytes`, 8 or 4; 0: too little for any.
constexpr int wide_transform_warps(std::size_t shared_bytes) {
  for (const int warps : {8, 4}) {
    if (wide_transform_shared_bytes(warps) <= shared_bytes) {
      return warps;
    }
  }
  return 0;
}

/// Floats of BackTransform::scratch.
constexpr std::int64_t wide_transform_scratch(std::int64_t order, std::int64_t columns,
                                              std::int64_t slots) {
  return slots * ceil_divide(columns, kWideColumns) * kWideColumns * order;
}

/// As back_transform(), but for `scratch` and the number of columns, which is any. Bits depend on
/// `warps` besides.
/// Accuracy  as in float32: every column is scaled by a power of two to a largest element of about
///           1, and its products err by some 2^-22 of their terms.
void wide_back_transform(const BackTransform<float>& turn, int warps, cudaStream_t stream);

}  // namespace vindex::kernels
