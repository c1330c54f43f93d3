// Owns the products of the first stage: one warp forms a kBand x kBand block of A B from operands
// in shared memory, in float32 or float64 arithmetic, in float32 by three tf32 products, or on the
// float64 tensor cores.
//
// A warp holds a block as kBlockValues values per lane; where each belongs is the policy's affair:
// row(lane, i) and column(lane, i). Every policy adds in an order that depends on nothing but the
// depth, so blocks have the same bits whatever surrounds them. half_product.hpp has one more.
#pragma once

#include "band_layout.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <intrinsics.hpp>
#include <type_traits>

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
  /// k and k + kApart; k is even where they are neighbours.
  template <int kApart>
  __device__ Pack<Real, 2> pair(int index, int k) const {
    if constexpr (kApart == 1) {
      return *reinterpret_cast<const Pack<Real, 2>*>(data + index * stride + k);
    }
    return {at(index, k), at(index, k + kApart)};
  }
};
template <typename Real>
struct AcrossDepth {  ///< index contiguous
  const Real* data;
  int stride;
  __device__ Real at(int index, int k) const { return data[k * stride + index]; }
  template <int kApart>
  __device__ Pack<Real, 2> pair(int index, int k) const {
    return {at(index, k), at(index, k + kApart)};
  }
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
/// a bias and not an error that averages out: so every 8 of depth have a sum of their own, small
/// terms first, and those are added with rounding to nearest.
struct SplitArithmetic {
  using Real = float;
  using Element = SplitFloat;
  static constexpr int kApart = 1;  // of the two depths of a lane
  __device__ static Element element(float value) { return split_float(value); }
  __device__ static void add(float* sum, const Element (&a)[4], const Element (&b)[2]) {
    const std::uint32_t a_high[4] = {a[0].high, a[1].high, a[2].high, a[3].high};
    const std::uint32_t a_low[4] = {a[0].low, a[1].low, a[2].low, a[3].low};
    const std::uint32_t b_high[2] = {b[0].high, b[1].high};
    const std::uint32_t b_low[2] = {b[0].low, b[1].low};
    float fresh[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    device::mma_tf32(fresh, a_low, b_high);
    device::mma_tf32(fresh, a_high, b_low);
    device::mma_tf32(fresh, a_high, b_high);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] += fresh[i];
    }
  }
};

/// The float64 tensor cores, which round every step to nearest.
struct DoubleArithmetic {
  using Real = double;
  using Element = double;
  static constexpr int kApart = 4;  // neighbours would have to be moved to other registers
  __device__ static Element element(double value) { return value; }
  __device__ static void add(double* sum, const double (&a)[4], const double (&b)[2]) {
    double tile[4] = {sum[0], sum[1], sum[2], sum[3]};
    device::mma_f64_m16n8k8(tile, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum[i] = tile[i];
    }
  }
};

/// Products of the tensor cores from tiles of 16 x 8 with depth 8. A fragment holds depths t and
/// t + 4 of both operands, which may stand for any two that both agree on: 2t and 2t + 1 lie side
/// by side in memory, and are what a lane has of a block that came out of a product, which so is an
/// operand as it is.
template <typename Arithmetic>
struct TileProduct {
  using Real = typename Arithmetic::Real;
  using Element = typename Arithmetic::Element;
  static constexpr int kTileRows = 16;
  static constexpr int kTileColumns = 8;
  static constexpr int kTileDepth = 8;
  static constexpr int kTileValues = 4;
  static constexpr int kRowTiles = kBandWidth / kTileRows;
  static constexpr int kColumnTiles = kBandWidth / kTileColumns;
  static constexpr int kNeighbours = 2;
  static constexpr bool kTakesValues = true;  // add_values()

  // Value i is of tile i / 4 (tile columns fastest); of its four the last two are 8 rows below.
  __device__ static int row(int lane, int i) {
    return i / (kColumnTiles * kTileValues) * kTileRows + lane / 4 + i % kTileValues / 2 * 8;
  }
  __device__ static int column(int lane, int i) {
    return i / kTileValues % kColumnTiles * kTileColumns + lane % 4 * 2 + i % 2;
  }

  // Two of the depths k to k + 7 per lane, kApart between them.
  template <int kApart>
  __device__ static int depth(int k, int lane) {
    return k + lane % 4 * (kApart == 1 ? 2 : 1);
  }

  struct Right {
    Element elements[kColumnTiles][2];
  };
  template <int kApart, typename B>
  __device__ static Right load_right(const B& b, int k, int lane) {
    Right right;
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      const auto pair =
          b.template pair<kApart>(kTileColumns * j + lane / 4, depth<kApart>(k, lane));
      right.elements[j][0] = Arithmetic::element(pair.values[0]);
      right.elements[j][1] = Arithmetic::element(pair.values[1]);
    }
    return right;
  }

  /// Adds to row `i` of tiles. `upper` and `lower`: rows g and g + 8 of A at the lane's two depths.
  __device__ static void add_tile_row(Real (&sum)[kBlockValues], const Pack<Real, 2>& upper,
                                      const Pack<Real, 2>& lower, const Right& right, int i) {
    const Element left[4] = {
        Arithmetic::element(upper.values[0]), Arithmetic::element(lower.values[0]),
        Arithmetic::element(upper.values[1]), Arithmetic::element(lower.values[1])};
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      Arithmetic::add(sum + (i * kColumnTiles + j) * kTileValues, left, right.elements[j]);
    }
  }

  template <typename A, typename B>
  __device__ static void add(Real (&sum)[kBlockValues], const A& a, const B& b, int lane) {
#pragma unroll 2
    for (int k = 0; k < kBandWidth; k += kTileDepth) {
      constexpr int kApart = Arithmetic::kApart;
      const Right right = load_right<kApart>(b, k, lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const int row = kTileRows * i + lane / 4;
        const int first = depth<kApart>(k, lane);
        add_tile_row(sum, a.template pair<kApart>(row, first),
                     a.template pair<kApart>(row + 8, first), right, i);
      }
    }
  }

  /// sum += (the block held as `values`) B.
  template <typename B>
  __device__ static void add_values(Real (&sum)[kBlockValues], const Real (&values)[kBlockValues],
                                    const B& b, int lane) {
#pragma unroll
    for (int tile = 0; tile < kColumnTiles; ++tile) {
      const Right right = load_right<1>(b, tile * kTileDepth, lane);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        const Real* own = values + (i * kColumnTiles + tile) * kTileValues;
        add_tile_row(sum, {own[0], own[1]}, {own[2], own[3]}, right, i);
      }
    }
  }
};

template <typename Real>
using TensorProduct = TileProduct<
    std::conditional_t<sizeof(Real) == sizeof(float), SplitArithmetic, DoubleArithmetic>>;

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
