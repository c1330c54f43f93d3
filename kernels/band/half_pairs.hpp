// Owns how the reduction with deferred updates keeps float32 numbers in memory: as the binary16
// parts that products want (half_product.hpp), in the room of the numbers. Each 8 neighbours of a
// row (32 bytes) are 8 high parts and then 8 low ones, so that whole blocks go to shared memory as
// they are and ldmatrix finds 16 bytes of a kind. A number so kept is right to 2^-23 of it, and to
// 2^-36 where it is below 2^-14.
//
// A lane that reads or writes them in global memory takes 8 neighbours of a row, the high parts and
// the low ones 16 bytes at a time. Of a tile product it holds two neighbours in each of four tiles:
// where the other operand lies in shared memory in the order of eight_place(), those eight are
// neighbours, as columns of a result and as depth of an operand.
#pragma once

#include "half_product.hpp"

namespace vindex::kernels {

/// Where row or column 8 t + 2 j + b of a block is to lie so that lane t of a tile product has
/// columns 8 t to 8 t + 7; its own inverse.
VINDEX_HD constexpr int eight_place(int column) {
  return (column & 1) | (column & 6) << 2 | (column & 24) >> 2;
}

/// Distance of rows of blocks in shared memory, an odd number of 16 bytes.
inline constexpr int kPairRow = kBandWidth + 4;
inline constexpr int kPairBlock = kBandWidth * kPairRow;

/// Eight neighbours, by pairs: what a lane has of a row.
struct HalfEight {
  std::uint32_t high[4];
  std::uint32_t low[4];
};
__device__ inline HalfEight load_eight(const float* from) {
  const auto high = *reinterpret_cast<const Pack<float, 4>*>(from);
  const auto low = *reinterpret_cast<const Pack<float, 4>*>(from + HalfProduct::kLowPart);
  HalfEight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out.high[i] = __float_as_uint(high.values[i]);
    out.low[i] = __float_as_uint(low.values[i]);
  }
  return out;
}
__device__ inline void store_eight(float* to, const HalfEight& eight) {
  Pack<float, 4> high;
  Pack<float, 4> low;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    high.values[i] = __uint_as_float(eight.high[i]);
    low.values[i] = __uint_as_float(eight.low[i]);
  }
  *reinterpret_cast<Pack<float, 4>*>(to) = high;
  *reinterpret_cast<Pack<float, 4>*>(to + HalfProduct::kLowPart) = low;
}
/// The parts of eight float32 neighbours.
__device__ inline HalfEight split_eight(const float* from) {
  const auto front = *reinterpret_cast<const Pack<float, 4>*>(from);
  const auto back = *reinterpret_cast<const Pack<float, 4>*>(from + 4);
  HalfEight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const Pack<float, 4>& four = i < 2 ? front : back;
    const HalfPair pair = split_pair(four.values[i % 2 * 2], four.values[i % 2 * 2 + 1]);
    out.high[i] = pair.high;
    out.low[i] = pair.low;
  }
  return out;
}
/// The first or the second of pair `i`, as a number.
__device__ inline float joined(const HalfEight& eight, int i, int which) {
  const std::uint32_t high = eight.high[i] >> (which == 0 ? 0U : 16U) & 0xffffU;
  const std::uint32_t low = eight.low[i] >> (which == 0 ? 0U : 16U) & 0xffffU;
  return fma(half_bits_to_float(low), kLowUnit, half_bits_to_float(high));
}

/// Number `i` of eight in memory, alone.
__device__ inline float joined_at(const float* eight, int i) {
  const auto* const parts = reinterpret_cast<const std::uint16_t*>(eight);
  return fma(half_bits_to_float(parts[i + 2 * HalfProduct::kLowPart]), kLowUnit,
             half_bits_to_float(parts[i]));
}
__device__ inline void store_at(float* eight, int i, float value) {
  auto* const parts = reinterpret_cast<std::uint16_t*>(eight);
  const HalfPair pair = split_pair(value, 0.0F);
  parts[i] = static_cast<std::uint16_t>(pair.high & 0xffffU);
  parts[i + 2 * HalfProduct::kLowPart] = static_cast<std::uint16_t>(pair.low & 0xffffU);
}

/// The same where load_eight() met float32 numbers.
__device__ inline float float_of(const HalfEight& eight, int i, int which) {
  const std::uint32_t(&four)[4] = i < 2 ? eight.high : eight.low;
  return __uint_as_float(four[i % 2 * 2 + which]);
}

/// 16 rows as the left operand of a product whose depth lies in the order of eight_place(): what
/// the lane has of its two rows.
__device__ inline HalfProduct::Left left_of_eights(const HalfEight& upper, const HalfEight& lower) {
  HalfProduct::Left left;
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const HalfEight& row = word % 2 == 0 ? upper : lower;
      left.high[step][word] = row.high[2 * step + word / 2];
      left.low[step][word] = row.low[2 * step + word / 2];
    }
  }
  return left;
}

/// Puts eight neighbours of a row, which begin at column 8 * `eight`, into a row in shared memory
/// whose columns lie in the order of eight_place().
__device__ inline void place_eight(float* row, int eight, const HalfEight& values) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float* word = row + 8 * i + eight;
    word[0] = __uint_as_float(values.high[i]);
    word[HalfProduct::kLowPart] = __uint_as_float(values.low[i]);
  }
}

}  // namespace vindex::kernels
