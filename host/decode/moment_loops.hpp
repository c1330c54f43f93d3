// Owns the two inner loops of the moments and their variants per SIMD level. Eight float64 lanes
// per sum, whatever the width of the processor's registers: value j of a piece goes to lane j
// mod 8. A narrower register takes several passes over the piece, which stays in the first cache.
#pragma once

#include <vindex/decode/simd_level.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace vindex::decode {

inline constexpr int kLanes = 8;

struct TileSums {
  std::array<std::array<double, kLanes>, 4> power{};  ///< of w - shift
  std::array<double, kLanes> squares{};               ///< of w; left alone where the shift is 0
};

struct TileExtremes {
  float min = std::numeric_limits<float>::infinity();
  float max = -std::numeric_limits<float>::infinity();
  std::int64_t zeros = 0;
};

struct MomentLoops {
  /// Adds `count` values to `sums`. A value that is not finite makes power[3] not finite.
  void (*add)(const float* values, std::int64_t count, double shift, TileSums& sums);
  /// Extremes of the values that are not NaN. count < 2^31.
  void (*widen)(const float* values, std::int64_t count, TileExtremes& extremes);
};

/// The loops of `level`; all levels give the same bits.
const MomentLoops& moment_loops(SimdLevel level);

}  // namespace vindex::decode
