// Owns the kernels of sliced_gram.hpp. With x_k = 2^(e - 53) sum over a = 0 ... 6 of 2^(8 (6 - a))
// x_ka, bytes x_ka and e the exponent of the line,
//
//   G_ij = 2^(e_i + e_j - 106) sum over w < 7 of 2^(8 (12 - w))  sum over a + b = w, k of x_ka y_kb
//
// the inner sums exact in 32 bits over 128 chunks of 128 steps, the outer ones in float64 and
// smallest first. Source: Ozaki, Ogita, Oishi, Rump 2012; Ootomo, Ozaki, Yokota 2024.
//
// Why not float64 arithmetic: at 1/64 of float32 it would be the dearest step of all. Why bytes and
// not binary16 slices: 32-bit integer sums are exact, where those of a tensor core in float32 are
// cut.
#include "sliced_gram.hpp"

#include "core/integers.hpp"
#include "kernels/decode/code_runs.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/gram/warp_tile.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::kProductsAcross;
using device::kProductsDown;
using device::kStageBytes;

constexpr int kThreads = device::kProductThreads;
constexpr int kTile = static_cast<int>(GramShape::kTile);
constexpr int kSlices = 7;
constexpr int kFraction = 53;  ///< bits of the integers below the line's exponent
constexpr int kRun = 16;       ///< steps that a thread cuts at a time: a piece of an operand row
constexpr int kStages = 3;
constexpr std::int64_t kStepsPerBlock = 512;  ///< of the search for the largest weights
constexpr std::uint32_t kInfinity = 0x7F800000U;
/// Of kSlices products at most, 2^14 each, 128 steps to a chunk.
static_assert(SlicedGramTask::kSegmentChunks * kTile * kSlices << 14U < 1LL << 31U);
static_assert(kTile == kOperandRowBytes, "128 steps of a byte are a row of an operand tile");

struct SlicedMemory {
  unsigned char* operands = nullptr;  ///< [tile][chunk][slice], 16 KiB each; slice 0 is the highest
  std::uint32_t* largest = nullptr;   ///< [line], bits of abs(weight) in float32
};

__device__ inline std::int64_t element(const SlicedGramTask& task, std::int64_t line,
                                       std::int64_t step) {
  return task.over_rows ? step * task.p + line : line * task.length + step;
}

__device__ inline std::uint32_t magnitude(const SlicedGramTask& task, std::int64_t line,
                                          std::int64_t step) {
  return __float_as_uint(fabsf(static_cast<float>(task.slab[element(task, line, step)])));
}

/// Neighbouring threads read neighbouring numbers: lines where rows are contracted, steps else.
/// Grid: x tiles of lines, y parts of the contraction. Block: kThreads. Shared: none. Bound by:
/// memory, 8 bytes a weight.
__global__ void __launch_bounds__(kThreads)
    largest_kernel(SlicedGramTask task, std::uint32_t* largest) {
  const std::int64_t first_line = static_cast<std::int64_t>(blockIdx.x) * kTile;
  const std::int64_t first_step = static_cast<std::int64_t>(blockIdx.y) * kStepsPerBlock;
  const std::int64_t last_step = min(first_step + kStepsPerBlock, task.length);
  const auto thread = static_cast<int>(threadIdx.x);
  if (task.over_rows) {
    const std::int64_t line = first_line + thread % kTile;
    if (line < task.p) {
      std::uint32_t most = 0;
      for (std::int64_t step = first_step + thread / kTile; step < last_step;
           step += kThreads / kTile) {
        most = max(most, magnitude(task, line, step));
      }
      atomicMax(largest + line, most);
    }
    return;
  }
  for (int i = thread / 32; i < kTile; i += kThreads / 32) {
    const std::int64_t line = first_line + i;
    if (line < task.p) {
      std::uint32_t most = 0;
      for (std::int64_t step = first_step + thread % 32; step < last_step; step += 32) {
        most = max(most, magnitude(task, line, step));
      }
      atomicMax(largest + line, most);
    }
  }
}

/// Of the largest weight of a line; 0 where it is 0 or no number.
__device__ inline int line_exponent(std::uint32_t largest) {
  return largest == 0 || largest >= kInfinity ? 0 : ilogbf(bits_as<float>(largest));
}

/// A thread cuts sixteen steps of a line at a time. Grid: x chunks, y tiles of lines. Block:
/// kThreads. Shared: none. Bound by: memory, 8 bytes read and 7 written a weight.
__global__ void __launch_bounds__(kThreads) slice_kernel(SlicedGramTask task, SlicedMemory memory) {
  const std::int64_t tile = blockIdx.y;
  const std::int64_t chunk = blockIdx.x;
  unsigned char* const to =
      memory.operands + (tile * gridDim.x + chunk) * kSlices * kOperandTileBytes;
  for (int run = static_cast<int>(threadIdx.x); run < kTile * kTile / kRun; run += kThreads) {
    const int row = task.over_rows ? run % kTile : run / (kTile / kRun);
    const int piece = task.over_rows ? run / kTile : run % (kTile / kRun);
    const std::int64_t line = tile * kTile + row;
    const std::int64_t first = chunk * kTile + piece * kRun;
    const std::uint32_t largest = line < task.p ? memory.largest[line] : kInfinity;
    const std::int64_t valid = largest >= kInfinity ? 0 : task.length - first;
    const double unit = ldexp(1.0, kFraction - line_exponent(largest));
    std::uint32_t words[kSlices][kRun / 4] = {};
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      std::int64_t rest = i < valid ? llrint(task.slab[element(task, line, first + i)] * unit) : 0;
#pragma unroll
      for (int slice = kSlices - 1; slice >= 0; --slice) {
        const auto digit = static_cast<std::int8_t>(rest & 0xFF);
        words[slice][i / 4] |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(digit))
                               << (8 * (i % 4));
        rest = (rest - digit) >> 8;
      }
    }
#pragma unroll
    for (int slice = 0; slice < kSlices; ++slice) {
      *reinterpret_cast<uint4*>(to + slice * kOperandTileBytes + operand_piece(row, piece)) =
          make_uint4(words[slice][0], words[slice][1], words[slice][2], words[slice][3]);
    }
  }
}

/// A step of the multiplication: byte `row_slice` of the rows with byte `weight` - row_slice of the
/// columns, over one chunk. Weights come smallest products first within a segment.
struct SlicedStep {
  std::int64_t chunk = 0, first, last;  ///< of the segment: chunks [first, last)
  std::int64_t chunks, segment;
  int weight = kSlices - 1;
  int row_slice = 0;

  __device__ SlicedStep(std::int64_t all_chunks, std::int64_t segment_chunks)
      : first(0),
        last(min(segment_chunks, all_chunks)),
        chunks(all_chunks),
        segment(segment_chunks) {}
  __device__ bool ends_sum() const { return row_slice == weight && chunk + 1 == last; }
  __device__ void advance() {
    if (++row_slice <= weight) {
      return;
    }
    row_slice = 0;
    if (++chunk < last) {
      return;
    }
    if (--weight < 0) {
      weight = kSlices - 1;
      first = last;
      last = min(last + segment, chunks);
    }
    chunk = first;
  }
  __device__ device::StepTiles tiles(const unsigned char* operands,
                                     const device::TilePair& pair) const {
    const auto at = [&](std::int64_t tile, int slice) {
      return operands + ((tile * chunks + chunk) * kSlices + slice) * kOperandTileBytes;
    };
    return {at(pair.row, row_slice), at(pair.col, weight - row_slice)};
  }
};
constexpr std::int64_t kStepsPerChunk = kSlices * (kSlices + 1) / 2;

using Sums = std::int32_t[kProductsDown][kProductsAcross][4];
using Totals = double[kProductsDown][kProductsAcross][4];

/// Adds the products of a stage: 128 steps, 32 to an instruction.
__device__ inline void multiply_stage(const unsigned char* stage, const device::WarpPlace& place,
                                      Sums& sums) {
#pragma unroll
  for (int part = 0; part < kTile / 32; ++part) {
    std::uint32_t b[kProductsAcross][2];
#pragma unroll
    for (int j = 0; j < kProductsAcross; j += 2) {
      std::uint32_t two[4];
      device::load_matrix_x4(
          two, device::fragment_address<false>(stage + kOperandTileBytes,
                                               place.first_line_col + 8 * j, part, false));
      b[j][0] = two[0];
      b[j][1] = two[1];
      b[j + 1][0] = two[2];
      b[j + 1][1] = two[3];
    }
#pragma unroll
    for (int i = 0; i < kProductsDown; ++i) {
      std::uint32_t a[4];
      device::load_matrix_x4(
          a, device::fragment_address<false>(stage, place.first_line_row + 16 * i, part, true));
#pragma unroll
      for (int j = 0; j < kProductsAcross; ++j) {
        device::mma_s8(sums[i][j], a, b[j]);
      }
    }
  }
}

/// total += sums 2^(-8 weight), and begins new sums.
__device__ inline void fold(Totals& totals, Sums& sums, int weight) {
  const double unit = ldexp(1.0, -8 * weight);
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        totals[i][j][k] = fma(static_cast<double>(sums[i][j][k]), unit, totals[i][j][k]);
        sums[i][j][k] = 0;
      }
    }
  }
}

/// Writes what stands on or below the diagonal.
__device__ inline void write(const SlicedGramTask& task, const std::uint32_t* largest,
                             const device::WarpPlace& place, const Totals& totals) {
  // Highest bytes weigh 2^(8 (kSlices - 1)) units each.
  constexpr int kUnits = 2 * (8 * (kSlices - 1) - kFraction);
#pragma unroll
  for (int i = 0; i < kProductsDown; ++i) {
#pragma unroll
    for (int j = 0; j < kProductsAcross; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const std::int64_t row = place.row + 16 * i + k / 2 * 8;
        const std::int64_t col = place.col + 8 * j + k % 2;
        if (row < task.p && col <= row) {
          const std::uint32_t of_row = largest[row];
          const std::uint32_t of_col = largest[col];
          const bool is_number = of_row < kInfinity && of_col < kInfinity;
          const int exponent = kUnits + line_exponent(of_row) + line_exponent(of_col);
          const double share =
              is_number ? ldexp(totals[i][j][k], exponent) : static_cast<double>(NAN);
          double& to = task.gram[col * task.leading + row];
          to = task.first ? share : to + share;
        }
      }
    }
  }
}

/// Grid: tile pairs of the lower triangle. Block: kThreads. Shared: kStages of kStageBytes. Bound
/// by: byte products of the tensor cores, 28 for each product of weights.
__global__ void __launch_bounds__(kThreads)
    sliced_product_kernel(SlicedGramTask task, SlicedMemory memory, std::int64_t chunks) {
  const device::TilePair pair = device::tile_pair(blockIdx.x);
  const device::WarpPlace place(pair);
  unsigned char* const shared = device::dynamic_shared();
  const std::int64_t count = chunks * kStepsPerChunk;
  SlicedStep next(chunks, task.segment_chunks);
#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) {
    if (stage < count) {
      device::load_step(next.tiles(memory.operands, pair), shared + stage * kStageBytes);
      next.advance();
    }
    device::copy_async_commit();
  }
  Totals totals = {};
  Sums sums = {};
  SlicedStep step(chunks, task.segment_chunks);
  int stage = 0;
  for (std::int64_t index = 0; index < count; ++index) {
    device::copy_async_wait<kStages - 2>();
    __syncthreads();  // the step has landed for all, and all are done with the stage filled next
    if (index + kStages - 1 < count) {
      const int free_stage = stage == 0 ? kStages - 1 : stage - 1;
      device::load_step(next.tiles(memory.operands, pair), shared + free_stage * kStageBytes);
      next.advance();
    }
    device::copy_async_commit();
    multiply_stage(shared + stage * kStageBytes, place, sums);
    if (step.ends_sum()) {
      fold(totals, sums, step.weight);
    }
    step.advance();
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  device::copy_async_wait<0>();
  write(task, memory.largest, place, totals);
}

struct SlicedSizes {
  std::int64_t tiles, chunks;
  std::size_t operand_bytes, total_bytes;

  SlicedSizes(std::int64_t p, std::int64_t length)
      : tiles(ceil_divide(p, GramShape::kTile)), chunks(ceil_divide(length, GramShape::kTile)) {
    operand_bytes = static_cast<std::size_t>(tiles * chunks * kSlices * kOperandTileBytes);
    total_bytes = operand_bytes + static_cast<std::size_t>(tiles * kTile) * sizeof(std::uint32_t);
  }
};

}  // namespace

std::size_t sliced_gram_bytes(std::int64_t p, std::int64_t length) {
  return SlicedSizes(p, length).total_bytes;
}

void add_sliced_gram(const SlicedGramTask& task, void* workspace, cudaStream_t stream) {
  const SlicedSizes sizes(task.p, task.length);
  auto* const operands = static_cast<unsigned char*>(workspace);
  const SlicedMemory memory{
      .operands = operands,
      .largest = reinterpret_cast<std::uint32_t*>(operands + sizes.operand_bytes)};
  check(cudaMemsetAsync(memory.largest, 0, sizes.total_bytes - sizes.operand_bytes, stream));
  const auto tiles = static_cast<unsigned>(sizes.tiles);
  const auto chunks = static_cast<unsigned>(sizes.chunks);
  launch(largest_kernel,
         dim3(tiles, static_cast<unsigned>(ceil_divide(task.length, kStepsPerBlock))),
         dim3(kThreads), 0, stream, task, memory.largest);
  launch(slice_kernel, dim3(chunks, tiles), dim3(kThreads), 0, stream, task, memory);
  launch(sliced_product_kernel, dim3(static_cast<unsigned>(sizes.tiles * (sizes.tiles + 1) / 2)),
         dim3(kThreads), static_cast<std::size_t>(kStages * kStageBytes), stream, task, memory,
         sizes.chunks);
}

}  // namespace vindex::kernels
