// Owns the products of the first stage: one warp forms a kBand x kBand block of A B from operands
// in shared memory, in float32 or float64 arithmetic, in float32 by three tf32 products, or on the
// float64 tensor cores.
//
// A warp holds a block as kBlockValues values per lane; where each belongs is the policy's affair:
// row(lane, i) and column(lane, i). Every policy adds in an order that depends on nothing but the
// depth, so blocks have the same bits whatever surrounds them.
#pragma once

#include "band_layout.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <intrinsics.hpp>

namespace vindex::kernels {

inline constexpr int kWarp = 32;
inline constexpr int kBandWidth = static_cast<int>(kBand);
/// Values of a kBand x kBand block per lane.
inline constexpr int kBlockValues = kBandWidth * kBandWidth / kWarp;

/// Element (row, column) of an operand at data[row * row_step + column * column_step].
template <typename Real>
struct Operand {
  const Real* data;
  int row_step;
  int column_step;
  __device__ Real at(int row, int column) const {
    return data[row * row_step + column * column_step];
  }
  __device__ Operand transposed() const { return {data, column_step, row_step}; }
};

/// Fused multiply-add of the CUDA cores. A lane holds rows l / 8 + 4 i and columns l % 8 + 8 j.
template <typename Scalar>
struct PlainProduct {
  using Real = Scalar;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 4;

  __device__ static int row(int lane, int i) { return lane / 8 + 4 * (i / kColumns); }
  __device__ static int column(int lane, int i) { return lane % 8 + 8 * (i % kColumns); }

  /// sum += A B, A kBand x depth, B depth x kBand.
  __device__ static void add(Real (&sum)[kBlockValues], const Operand<Real>& a,
                             const Operand<Real>& b, int depth, int lane) {
#pragma unroll 2
    for (int k = 0; k < depth; ++k) {
      Real left[kRows];
      Real right[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        left[i] = a.at(lane / 8 + 4 * i, k);
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        right[j] = b.at(k, lane % 8 + 8 * j);
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          sum[i * kColumns + j] = fma(left[i], right[j], sum[i * kColumns + j]);
        }
      }
    }
  }
};

/// float32 as a sum of two tf32 values, to 2^-23 of it: 11 bits by rounding, and the 11 that
/// follow. Not-a-number and infinity stay what they are in `low`, so that they reach the product.
struct SplitFloat {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline SplitFloat split_float(float value) {
  // Rounding as an integer is one instruction where a conversion waits for a slower unit.
  constexpr std::uint32_t kHalfUnit = 0x1000U;
  constexpr std::uint32_t kKept = 0xffffe000U;
  const std::uint32_t high = (__float_as_uint(value) + kHalfUnit) & kKept;
  const float rest = value - __uint_as_float(high);
  return {high, __float_as_uint(rest) & kKept};
}

/// Three tf32 products per float32 product: high high + high low + low high; what is left out is
/// 2^-22 of the largest term. The tensor cores cut every sum towards zero, which over many steps is
/// a bias and not an error that averages out: so every kFresh of depth have a sum of their own,
/// small terms first, and those are added with rounding to nearest.
struct SplitProduct {
  using Real = float;
  static constexpr int kFresh = 8;
  static constexpr int kTileRows = 16;
  static constexpr int kTileColumns = 8;
  static constexpr int kRowTiles = kBandWidth / kTileRows;
  static constexpr int kColumnTiles = kBandWidth / kTileColumns;
  static constexpr int kTileValues = 4;

  // Value i is of tile i / 4 (tile columns fastest); of its four the last two are 8 rows below.
  __device__ static int row(int lane, int i) {
    return i / (kColumnTiles * kTileValues) * kTileRows + lane / 4 + i % kTileValues / 2 * 8;
  }
  __device__ static int column(int lane, int i) {
    return i / kTileValues % kColumnTiles * kTileColumns + lane % 4 * 2 + i % 2;
  }

  __device__ static void add(float (&sum)[kBlockValues], const Operand<float>& a,
                             const Operand<float>& b, int depth, int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll 1
    for (int k = 0; k < depth; k += kFresh) {
      std::uint32_t right_high[kColumnTiles][2];
      std::uint32_t right_low[kColumnTiles][2];
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const SplitFloat split = split_float(b.at(k + t + 4 * half, kTileColumns * j + g));
          right_high[j][half] = split.high;
          right_low[j][half] = split.low;
        }
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        std::uint32_t left_high[4];
        std::uint32_t left_low[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const SplitFloat split =
              split_float(a.at(kTileRows * i + g + part % 2 * 8, k + t + part / 2 * 4));
          left_high[part] = split.high;
          left_low[part] = split.low;
        }
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
          float fresh[kTileValues] = {0.0F, 0.0F, 0.0F, 0.0F};
          device::mma_tf32(fresh, left_low, right_high[j]);
          device::mma_tf32(fresh, left_high, right_low[j]);
          device::mma_tf32(fresh, left_high, right_high[j]);
#pragma unroll
          for (int value = 0; value < kTileValues; ++value) {
            sum[(i * kColumnTiles + j) * kTileValues + value] += fresh[value];
          }
        }
      }
    }
  }
};

/// The float64 tensor cores, which round every step to nearest.
struct DoubleProduct {
  using Real = double;
  static constexpr int kTile = 8;
  static constexpr int kDepth = 4;
  static constexpr int kTiles = kBandWidth / kTile;

  __device__ static int row(int lane, int i) { return i / (2 * kTiles) * kTile + lane / 4; }
  __device__ static int column(int lane, int i) {
    return i / 2 % kTiles * kTile + lane % 4 * 2 + i % 2;
  }

  __device__ static void add(double (&sum)[kBlockValues], const Operand<double>& a,
                             const Operand<double>& b, int depth, int lane) {
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll 2
    for (int k = 0; k < depth; k += kDepth) {
      double right[kTiles];
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        right[j] = b.at(k + t, kTile * j + g);
      }
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const double left = a.at(kTile * i + g, k + t);
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const int first = (i * kTiles + j) * 2;
          double pair[2] = {sum[first], sum[first + 1]};
          device::mma_f64(pair, left, right[j]);
          sum[first] = pair[0];
          sum[first + 1] = pair[1];
        }
      }
    }
  }
};

}  // namespace vindex::kernels
