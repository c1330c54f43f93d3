// Owns the storage of a band between the two stages of tridiagonalisation.
#pragma once

#include "core/integers.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Subdiagonals left by the first stage. The second stage costs in proportion, and so do the
/// products of a panel with itself; half as many would read the trailing matrix twice as often.
inline constexpr std::int64_t kBand = 16;
/// Distance of neighbouring columns of band storage: element (i, j), 0 <= i - j < 2 kBand, is at
/// j * kBandStride + i. The room below the band takes the bulges of the second stage.
inline constexpr std::int64_t kBandStride = 2 * kBand;

/// n rounded up to whole blocks.
constexpr std::int64_t band_order(std::int64_t n) { return ceil_divide(n, kBand) * kBand; }

/// Elements of band storage for order n, with zero columns behind for the windows of the second
/// stage.
constexpr std::int64_t band_elements(std::int64_t n) {
  return (band_order(n) + 3 * kBand) * (kBandStride + 1);
}

}  // namespace vindex::cpu
