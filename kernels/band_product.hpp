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

/// Neighbouring values, as wide loads and stores move them.
template <typename Real, int kCount>
struct alignas(kCount * sizeof(Real)) Pack {
  Real values[kCount];
};

/// An operand by (index, k): index is the row of A or the column of B, k the depth.
template <typename Real>
struct AlongDepth {  ///< depth contiguous
  const Real* data;
  int stride;
  __device__ Real at(int index, int k) const { return data[index * stride + k]; }
  /// k and k + 1, for even k.
  __device__ Pack<Real, 2> pair(int index, int k) const {
    return *reinterpret_cast<const Pack<Real, 2>*>(data + index * stride + k);
  }
};
template <typename Real>
struct AcrossDepth {  ///< index contiguous
  const Real* data;
  int stride;
  __device__ Real at(int index, int k) const { return data[k * stride + index]; }
  __device__ Pack<Real, 2> pair(int index, int k) const { return {at(index, k), at(index, k + 1)}; }
};

/// Fused multiply-add of the CUDA cores. A lane holds rows l / 8 + 4 i and columns l % 8 + 8 j.
template <typename Scalar>
struct PlainProduct {
  using Real = Scalar;
  static constexpr int kRows = 8;
  static constexpr int kColumns = 4;
  static constexpr int kNeighbours = 1;  // values in a row side by side
  static constexpr bool kTakesValues = false;

  __device__ static int row(int lane, int i) { return lane / 8 + 4 * (i / kColumns); }
  __device__ static int column(int lane, int i) { return lane % 8 + 8 * (i % kColumns); }

  /// sum += A B, A kBand x kBand, B kBand x kBand.
  template <typename A, typename B>
  __device__ static void add(Real (&sum)[kBlockValues], const A& a, const B& b, int lane) {
#pragma unroll 2
    for (int k = 0; k < kBandWidth; ++k) {
      Real left[kRows];
      Real right[kColumns];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        left[i] = a.at(lane / 8 + 4 * i, k);
      }
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        right[j] = b.at(lane % 8 + 8 * j, k);
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
/// follow. Not-a-number and infinity come out of `low` as not-a-number, so that they reach the
/// product.
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
/// a bias and not an error that averages out: so every kTileDepth of depth have a sum of their own,
/// small terms first, and those are added with rounding to nearest.
///
/// The fragments' depths t and t + 4 stand for 2t and 2t + 1: any order serves that both operands
/// share, and in this one pairs lie side by side in memory, and a block that came out of a product
/// is an operand as it is.
struct SplitProduct {
  using Real = float;
  static constexpr int kTileRows = 16;
  static constexpr int kTileColumns = 8;
  static constexpr int kTileDepth = 8;
  static constexpr int kRowTiles = kBandWidth / kTileRows;
  static constexpr int kColumnTiles = kBandWidth / kTileColumns;
  static constexpr int kTileValues = 4;
  static constexpr int kNeighbours = 2;
  static constexpr bool kTakesValues = true;

  // Value i is of tile i / 4 (tile columns fastest); of its four the last two are 8 rows below.
  __device__ static int row(int lane, int i) {
    return i / (kColumnTiles * kTileValues) * kTileRows + lane / 4 + i % kTileValues / 2 * 8;
  }
  __device__ static int column(int lane, int i) {
    return i / kTileValues % kColumnTiles * kTileColumns + lane % 4 * 2 + i % 2;
  }

  struct Right {
    std::uint32_t high[kColumnTiles][2];
    std::uint32_t low[kColumnTiles][2];
  };
  template <typename B>
  __device__ static Right load_right(const B& b, int k, int lane) {
    Right right;
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      const Pack<float, 2> pair = b.pair(kTileColumns * j + lane / 4, k + lane % 4 * 2);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const SplitFloat split = split_float(pair.values[half]);
        right.high[j][half] = split.high;
        right.low[j][half] = split.low;
      }
    }
    return right;
  }

  /// `left`: rows g and g + 8 at depth 2t, then at 2t + 1.
  __device__ static void add_tile_row(float (&sum)[kBlockValues], const float (&left)[4],
                                      const Right& right, int i) {
    std::uint32_t high[4];
    std::uint32_t low[4];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const SplitFloat split = split_float(left[part]);
      high[part] = split.high;
      low[part] = split.low;
    }
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      float fresh[kTileValues] = {0.0F, 0.0F, 0.0F, 0.0F};
      device::mma_tf32(fresh, low, right.high[j]);
      device::mma_tf32(fresh, high, right.low[j]);
      device::mma_tf32(fresh, high, right.high[j]);
#pragma unroll
      for (int value = 0; value < kTileValues; ++value) {
        sum[(i * kColumnTiles + j) * kTileValues + value] += fresh[value];
      }
    }
  }

  template <typename A, typename B>
  __device__ static void add(float (&sum)[kBlockValues], const A& a, const B& b, int lane) {
#pragma unroll 2
    for (int k = 0; k < kBandWidth; k += kTileDepth) {
      const Right right = load_right(b, k, lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const int row = kTileRows * i + lane / 4;
        const Pack<float, 2> upper = a.pair(row, k + lane % 4 * 2);
        const Pack<float, 2> lower = a.pair(row + 8, k + lane % 4 * 2);
        const float left[4] = {upper.values[0], lower.values[0], upper.values[1], lower.values[1]};
        add_tile_row(sum, left, right, i);
      }
    }
  }

  /// sum += (the block held as `values`) B.
  template <typename B>
  __device__ static void add_values(float (&sum)[kBlockValues], const float (&values)[kBlockValues],
                                    const B& b, int lane) {
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
      const Right right = load_right(b, tile * kTileDepth, lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const float* own = values + (i * kColumnTiles + tile) * kTileValues;
        const float left[4] = {own[0], own[2], own[1], own[3]};
        add_tile_row(sum, left, right, i);
      }
    }
  }
};

/// The float64 tensor cores, which round every step to nearest. Two steps of depth 4 take depths
/// 2t, then 2t + 1: see SplitProduct.
struct DoubleProduct {
  using Real = double;
  static constexpr int kTile = 8;
  static constexpr int kTiles = kBandWidth / kTile;
  static constexpr int kNeighbours = 2;
  static constexpr bool kTakesValues = true;

  __device__ static int row(int lane, int i) { return i / (2 * kTiles) * kTile + lane / 4; }
  __device__ static int column(int lane, int i) {
    return i / 2 % kTiles * kTile + lane % 4 * 2 + i % 2;
  }

  struct Right {
    Pack<double, 2> pairs[kTiles];
  };
  template <typename B>
  __device__ static Right load_right(const B& b, int k, int lane) {
    Right right;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      right.pairs[j] = b.pair(kTile * j + lane / 4, k + lane % 4 * 2);
    }
    return right;
  }

  __device__ static void add_tile_row(double (&sum)[kBlockValues], double even, double odd,
                                      const Right& right, int i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int first = (i * kTiles + j) * 2;
      double pair[2] = {sum[first], sum[first + 1]};
      device::mma_f64(pair, even, right.pairs[j].values[0]);
      device::mma_f64(pair, odd, right.pairs[j].values[1]);
      sum[first] = pair[0];
      sum[first + 1] = pair[1];
    }
  }

  template <typename A, typename B>
  __device__ static void add(double (&sum)[kBlockValues], const A& a, const B& b, int lane) {
#pragma unroll 1
    for (int k = 0; k < kBandWidth; k += kTile) {
      const Right right = load_right(b, k, lane);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const Pack<double, 2> left = a.pair(kTile * i + lane / 4, k + lane % 4 * 2);
        add_tile_row(sum, left.values[0], left.values[1], right, i);
      }
    }
  }

  template <typename B>
  __device__ static void add_values(double (&sum)[kBlockValues],
                                    const double (&values)[kBlockValues], const B& b, int lane) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const Right right = load_right(b, tile * kTile, lane);
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const int first = (i * kTiles + tile) * 2;
        add_tile_row(sum, values[first], values[first + 1], right, i);
      }
    }
  }
};

/// Reads or writes a block, `stride` between its rows; stride and address are even.
template <typename Product, typename Stride>
__device__ void load_values(typename Product::Real (&values)[kBlockValues],
                            const typename Product::Real* from, Stride stride, int lane) {
  using Neighbours = Pack<typename Product::Real, Product::kNeighbours>;
#pragma unroll
  for (int i = 0; i < kBlockValues; i += Product::kNeighbours) {
    const auto pack = *reinterpret_cast<const Neighbours*>(from + Product::row(lane, i) * stride +
                                                           Product::column(lane, i));
#pragma unroll
    for (int j = 0; j < Product::kNeighbours; ++j) {
      values[i + j] = pack.values[j];
    }
  }
}
template <typename Product, typename Stride>
__device__ void store_values(typename Product::Real* to,
                             const typename Product::Real (&values)[kBlockValues], Stride stride,
                             int lane) {
  using Neighbours = Pack<typename Product::Real, Product::kNeighbours>;
#pragma unroll
  for (int i = 0; i < kBlockValues; i += Product::kNeighbours) {
    Neighbours pack;
#pragma unroll
    for (int j = 0; j < Product::kNeighbours; ++j) {
      pack.values[j] = values[i + j];
    }
    *reinterpret_cast<Neighbours*>(to + Product::row(lane, i) * stride + Product::column(lane, i)) =
        pack;
  }
}

}  // namespace vindex::kernels
