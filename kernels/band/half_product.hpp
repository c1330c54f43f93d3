// Owns float32 products from binary16 parts on the tensor cores: x = high + low / 2^11, both
// rounded to nearest, which is x to 2^-24 of it while 2^-14 <= |x| < 65520, to 2^-36 in absolute
// terms below. A B = high high + (low high + high low) / 2^11; what is left out is 2^-24 of a term.
//
// Against three tf32 products per 8 of depth that is half the instructions per depth; and as 16-bit
// parts can be stored where the float32 number was, operands are split once, where they come to
// shared memory or registers, and not for every product.
//
// A block is 32 x 32, its values in a lane as TileProduct<SplitArithmetic> (band_product.hpp) has
// them. Operands in shared memory: each 8 neighbouring float32 numbers (32 bytes) become 8 high
// parts and then 8 low ones, so that ldmatrix finds 16 bytes of a kind; rows that are an odd number
// of 16 bytes apart make its reads free of bank conflicts.
#pragma once

#include "band_product.hpp"

#include <cuda_fp16.h>

#include <cstdint>
#include <intrinsics.hpp>

namespace vindex::kernels {

/// What one stands for in a low part.
inline constexpr float kLowUnit = 0x1p-11F;

/// The parts of two neighbours, the first in the lower halves.
struct HalfPair {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline float half_bits_to_float(std::uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
}
__device__ inline HalfPair split_pair(float first, float second) {
  const std::uint32_t high = device::to_half_pair(first, second);
  // Exact; not-a-number for what is not finite, which so reaches the product.
  const float first_rest = first - half_bits_to_float(high & 0xffffU);
  const float second_rest = second - half_bits_to_float(high >> 16U);
  return {high, device::to_half_pair(first_rest / kLowUnit, second_rest / kLowUnit)};
}

/// What numbers of a bound beyond any use are multiplied by before they are split: a power of two
/// that takes it to [2^14, 2^15), as binary16 parts end at 65504.
__device__ inline float half_scale(float bound) {
  constexpr int kMax = 100;  // so that 1 / scale is a normal number
  int exponent = 0;
  (void)frexp(bound, &exponent);
  return ldexp(1.0F, max(-kMax, min(15 - exponent, kMax)));
}

/// Operands and products of blocks.
struct HalfProduct {
  using Layout = TileProduct<SplitArithmetic>;
  static constexpr int kRowTiles = Layout::kRowTiles;
  static constexpr int kColumnTiles = Layout::kColumnTiles;
  static constexpr int kEight = 8;  // rows and columns of what ldmatrix reads
  static constexpr int kSteps = kBandWidth / 16;
  static constexpr int kPairs = kBlockValues / 2;
  static constexpr int kLowPart = 4;  // where low parts begin within their 8 numbers

  /// Splits, in place, the four numbers at `four` times `scale`; the other four of their eight are
  /// split by a neighbouring lane, in the same call. `second`: they are the last four.
  __device__ static void split_four(float* four, bool second, float scale) {
    const Pack<float, 4> x = *reinterpret_cast<const Pack<float, 4>*>(four);
    const HalfPair front = split_pair(x.values[0] * scale, x.values[1] * scale);
    const HalfPair back = split_pair(x.values[2] * scale, x.values[3] * scale);
    __syncwarp();  // the neighbour's numbers lie where parts of these go
    float* high = second ? four - 2 : four;
    *reinterpret_cast<Pack<float, 2>*>(high) = {__uint_as_float(front.high),
                                                __uint_as_float(back.high)};
    *reinterpret_cast<Pack<float, 2>*>(high + kLowPart) = {__uint_as_float(front.low),
                                                           __uint_as_float(back.low)};
  }

  /// A block that a lane's values make up, as an operand.
  struct Block {
    std::uint32_t high[kPairs];
    std::uint32_t low[kPairs];
  };
  __device__ static Block block(const float (&values)[kBlockValues]) {
    Block out;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const HalfPair pair = split_pair(values[2 * i], values[2 * i + 1]);
      out.high[i] = pair.high;
      out.low[i] = pair.low;
    }
    return out;
  }
  /// Writes it to where it can be read as AlongDepth and AcrossDepth.
  __device__ static void store_block(float* to, const Block& block, int stride, int lane) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      float* word =
          to + Layout::row(lane, 2 * i) * stride + i / 2 % kColumnTiles * kEight + lane % 4;
      word[0] = __uint_as_float(block.high[i]);
      word[kLowPart] = __uint_as_float(block.low[i]);
    }
  }

  /// Four pieces of 8 x 8, of which this lane names a row of the one at (outer, depth), in eights.
  __device__ static void load_pieces(std::uint32_t (&pieces)[4], const AlongDepth<float>& from,
                                     int outer, int depth, int part, int lane) {
    device::load_matrix_x4(
        pieces, from.data + (kEight * outer + lane % kEight) * from.stride + kEight * depth + part);
  }
  __device__ static void load_pieces(std::uint32_t (&pieces)[4], const AcrossDepth<float>& from,
                                     int outer, int depth, int part, int lane) {
    device::load_matrix_x4_transposed(
        pieces, from.data + (kEight * depth + lane % kEight) * from.stride + kEight * outer + part);
  }

  struct Left {  ///< 16 rows of A
    std::uint32_t high[kSteps][4];
    std::uint32_t low[kSteps][4];
  };
  template <typename A>
  __device__ static Left load_left(const A& a, int i, int lane) {
    Left left;
    const int piece = lane / kEight;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      const int outer = 2 * i + piece % 2;
      const int depth = 2 * step + piece / 2;
      load_pieces(left.high[step], a, outer, depth, 0, lane);
      load_pieces(left.low[step], a, outer, depth, kLowPart, lane);
    }
    return left;
  }
  __device__ static Left left_of(const Block& block, int i) {
    Left left;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int pair = (i * kColumnTiles + 2 * step) * 2 + word;
        left.high[step][word] = block.high[pair];
        left.low[step][word] = block.low[pair];
      }
    }
    return left;
  }
  /// The same from float32 in global memory, depth contiguous, `stride` between rows, times
  /// `scale`.
  __device__ static Left left_of_rows(const float* a, std::int64_t stride, float scale, int i,
                                      int lane) {
    Left left;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        const int row = 16 * i + lane / 4 + word % 2 * kEight;
        const int depth = 16 * step + lane % 4 * 2 + word / 2 * kEight;
        const auto two = *reinterpret_cast<const Pack<float, 2>*>(a + row * stride + depth);
        const HalfPair pair = split_pair(two.values[0] * scale, two.values[1] * scale);
        left.high[step][word] = pair.high;
        left.low[step][word] = pair.low;
      }
    }
    return left;
  }

  struct Right {  ///< all of B
    std::uint32_t high[kSteps][kColumnTiles][2];
    std::uint32_t low[kSteps][kColumnTiles][2];
  };
  template <typename B>
  __device__ static Right load_right(const B& b, int lane) {
    Right right;
    const int piece = lane / kEight;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; j += 2) {
        std::uint32_t high[4];
        std::uint32_t low[4];
        load_pieces(high, b, j + piece / 2, 2 * step + piece % 2, 0, lane);
        load_pieces(low, b, j + piece / 2, 2 * step + piece % 2, kLowPart, lane);
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          right.high[step][j + word / 2][word % 2] = high[word];
          right.low[step][j + word / 2][word % 2] = low[word];
        }
      }
    }
    return right;
  }
  /// The same from float32 in global memory: depth k is row k, `stride` between rows.
  __device__ static Right right_of_rows(const float* b, std::int64_t stride, int lane) {
    Right right;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int word = 0; word < 2; ++word) {
          const int depth = 16 * step + lane % 4 * 2 + word * kEight;
          const float* first = b + depth * stride + kEight * j + lane / 4;
          const HalfPair pair = split_pair(first[0], first[stride]);
          right.high[step][j][word] = pair.high;
          right.low[step][j][word] = pair.low;
        }
      }
    }
    return right;
  }

  /// Row `i` of tiles of A B, added to `sum` or, with kFresh, put there. The tensor cores cut every
  /// sum towards zero, at a bit that the largest of its terms decides; so every 16 of depth have a
  /// sum of their own, and those are added with rounding to nearest. Small terms go first, into
  /// that of the first 16.
  template <bool kFresh>
  __device__ static void multiply_row(float (&sum)[kBlockValues], const Left& left,
                                      const Right& right, int i) {
    float terms[kColumnTiles][4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        if (step == 0) {
          device::mma_f16_fresh(terms[j], left.low[step], right.high[step][j]);
        } else {
          device::mma_f16(terms[j], left.low[step], right.high[step][j]);
        }
      }
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        device::mma_f16(terms[j], left.high[step], right.low[step][j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        terms[j][word] *= kLowUnit;
      }
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        if (step == 0) {
          device::mma_f16(terms[j], left.high[step], right.high[step][j]);
        } else {
          device::mma_f16_fresh(terms[j], left.high[step], right.high[step][j]);
        }
#pragma unroll
        for (int word = 0; word < 4; ++word) {
          float& value = sum[(i * kColumnTiles + j) * 4 + word];
          value = kFresh && step == 0 ? terms[j][word] : value + terms[j][word];
        }
      }
    }
  }
};

}  // namespace vindex::kernels
