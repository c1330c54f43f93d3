// Owns what both multiplication kernels do around their products: which tile a block has, which
// operand tiles a step multiplies, and how a finished tile is written.
#pragma once

#include "gram_layout.hpp"
#include "product_arguments.hpp"

#include <cstdint>

namespace vindex::kernels::device {

/// The output tile of a block: rows of tile `row`, columns of tile `col` <= row.
struct TilePair {
  std::int64_t row, col;
};

/// Pair `index` of the lower triangle, row by row.
__device__ inline TilePair tile_pair(std::int64_t index) {
  // The root is good to a few units in the last place of float32; the loops make it exact.
  auto row = static_cast<std::int64_t>((sqrtf(8.0F * static_cast<float>(index) + 1.0F) - 1.0F) / 2);
  while (row * (row + 1) / 2 > index) {
    --row;
  }
  while ((row + 1) * (row + 2) / 2 <= index) {
    ++row;
  }
  return {row, index - row * (row + 1) / 2};
}

/// Steps of one tile: for every chunk, for every product of parts (low low, high low, low high,
/// high high), for both slices.
struct Steps {
  std::int64_t chunk_count;
  int log_products;  ///< 0, or 2 for pairs

  __device__ explicit Steps(const ProductArguments& arguments)
      : chunk_count(arguments.chunk_count), log_products(arguments.parts == 2 ? 2 : 0) {}
  __device__ std::int64_t per_chunk() const { return kSlicesPerChunk << log_products; }
  __device__ std::int64_t count() const { return chunk_count << (log_products + 1); }
};
static_assert(kSlicesPerChunk == 2);

/// A step: which slice of which chunk, and of which parts.
struct Step {
  std::int64_t chunk, slice;  ///< slice counts from the first chunk held
  bool low_row, low_col;      ///< low parts
  __device__ bool high() const { return !low_row && !low_col; }
};
__device__ inline Step step_at(const Steps& steps, std::int64_t index) {
  const std::int64_t chunk = index >> (steps.log_products + 1);
  const auto product = static_cast<int>(index >> 1);
  const bool pairs = steps.log_products != 0;
  return {chunk, chunk * kSlicesPerChunk + (index & 1), pairs && (product & 1) == 0,
          pairs && (product & 2) == 0};
}

/// The operand tiles of a step, in global memory.
struct StepTiles {
  const unsigned char* row;
  const unsigned char* col;
};
__device__ inline StepTiles step_tiles(const ProductArguments& arguments, const Steps& steps,
                                       const TilePair& pair, std::int64_t index) {
  const Step step = step_at(steps, index);
  const unsigned char* matrix =
      arguments.operands + static_cast<std::int64_t>(blockIdx.z) * arguments.matrix_bytes;
  const std::int64_t slices = arguments.chunk_count * kSlicesPerChunk;
  return {matrix + (step.low_row ? arguments.part_bytes : 0) +
              (pair.row * slices + step.slice) * kOperandTileBytes,
          matrix + (step.low_col ? arguments.part_bytes : 0) +
              (pair.col * slices + step.slice) * kOperandTileBytes};
}

/// What the sums of a local chunk are multiplied with, for `kColumns` column tiles side by side of
/// which `columns` are there. Loaded while the chunk before is multiplied; behind the last chunk
/// the last one's.
template <int kColumns>
struct ChunkFactors {
  float row, col[kColumns];

  __device__ ChunkFactors(const ProductArguments& arguments, const TilePair& first, int columns,
                          std::int64_t chunk) {
    const std::int64_t last = arguments.chunk_count - 1;
    const std::int64_t at = (static_cast<std::int64_t>(blockIdx.z) * arguments.chunks +
                             arguments.first_chunk + (chunk < last ? chunk : last)) *
                            arguments.tiles;
    const float* const factors = arguments.factors + at;
    row = __ldg(arguments.row_factors + at + first.row);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      col[i] = __ldg(factors + first.col + (i < columns ? i : 0));
    }
  }
  __device__ float of(int column) const { return row * col[column]; }
};

/// Two neighbouring elements of a tile held by a thread, at (row, col) and (row, col + 1) of the
/// Gram matrix; col is even. On the diagonal the upper one of a mirrored pair is left to the lower.
struct TileElements {
  float* gram;
  const float* diagonal;
  std::int64_t order;

  __device__ TileElements(const ProductArguments& arguments)
      : gram(arguments.grams +
             static_cast<std::int64_t>(blockIdx.z) * arguments.order * arguments.order),
        diagonal(arguments.diagonals + static_cast<std::int64_t>(blockIdx.z) * arguments.order),
        order(arguments.order) {}

  /// What is there from earlier chunks.
  __device__ void read(std::int64_t row, std::int64_t col, float& first, float& second) const {
    if (row < order && col < order) {
      // Above the diagonal stands the mirrored value: the same number.
      const float2 two = *reinterpret_cast<const float2*>(gram + row * order + col);
      first = two.x;
      second = two.y;
    }
  }
  /// Writes both triangles, the known diagonal in place of what was summed, and returns what the
  /// two add to ||G||_F^2.
  __device__ double write(std::int64_t row, std::int64_t col, float first, float second) const {
    if (row >= order || col >= order || col > row) {
      return 0.0;
    }
    first = col == row ? diagonal[row] : first;
    second = col + 1 == row ? diagonal[row] : second;
    const auto a = static_cast<double>(first);
    const auto b = static_cast<double>(second);
    gram[col * order + row] = first;
    double norm = (col == row ? 1.0 : 2.0) * a * a;
    if (col + 1 <= row) {
      *reinterpret_cast<float2*>(gram + row * order + col) = make_float2(first, second);
      gram[(col + 1) * order + row] = second;
      norm += (col + 1 == row ? 1.0 : 2.0) * b * b;
    }
    return norm;
  }
};

/// Sum over the `threads` first threads of the block (a multiple of 32) in a fixed tree, in thread
/// 0. `shared` holds one double per warp. Every thread of the block takes part in the barrier.
__device__ inline double block_sum(double value, int threads, double* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_down_sync(0xFFFFFFFFU, value, offset);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < threads / 32; ++warp) {
      value += shared[warp];
    }
  }
  return value;
}

}  // namespace vindex::kernels::device
