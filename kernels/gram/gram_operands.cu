#include "device/launch.hpp"
#include "gram/gram_operands.hpp"
#include "gram/gram_sources.hpp"

#include <vindex/core/philox.hpp>

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::kRun;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kTile = static_cast<int>(GramShape::kTile);
constexpr int kRunsPerRow = kTile / kRun;
constexpr int kLargestHalfExponent = 14;  ///< operands below 2^15: nothing rounds to infinity
/// Factors of blocks that hold a weight stay below 2^11; those of blocks of zeros may be anything,
/// and must not turn 0 into NaN.
constexpr float kLargestFactor = 0x1p+60F;

/// What a kernel is compiled for; the rest is decided when it runs.
enum class Element { kHalf, kBfloat16, kBlockScaledHalf };

struct OperandArguments {
  GramMemory memory;
  OperandTask task;
  std::int64_t tiles, chunks;
  bool contracts_rows, shifted, pair;
};
static_assert(sizeof(WeightSums) == GramWorkspace::kSumsBytes);

__device__ inline WeightSums no_sums() {
  WeightSums sums;
  sums.min = HUGE_VALF;
  sums.max = -HUGE_VALF;
  return sums;
}

__device__ inline void add(WeightSums& to, const WeightSums& from) {
  to.count += from.count;
  to.zeros += from.zeros;
  to.nonfinite += from.nonfinite;
  for (int k = 0; k < 4; ++k) {
    to.power[k] += from.power[k];
  }
  to.squares += from.squares;
  to.min = fminf(to.min, from.min);
  to.max = fmaxf(to.max, from.max);
}

__device__ inline void add_weight(WeightSums& sums, float weight, double shift) {
  const auto w = static_cast<double>(weight);
  const double d = w - shift;
  const double d2 = d * d;
  sums.count += 1;
  sums.zeros += weight == 0.0F ? 1 : 0;
  sums.power[0] += d;
  sums.power[1] += d2;
  sums.power[2] = fma(d2, d, sums.power[2]);
  sums.power[3] = fma(d2, d2, sums.power[3]);
  sums.squares = fma(w, w, sums.squares);
  sums.min = fminf(sums.min, weight);
  sums.max = fmaxf(sums.max, weight);
}

/// The sums of all threads of the block, in thread 0; a fixed tree. `shared` holds kWarps sums.
__device__ inline WeightSums block_sum(WeightSums sums, WeightSums* shared) {
  for (int offset = 16; offset > 0; offset /= 2) {
    WeightSums other;
    other.count = __shfl_down_sync(kAllLanes, sums.count, offset);
    other.zeros = __shfl_down_sync(kAllLanes, sums.zeros, offset);
    other.nonfinite = __shfl_down_sync(kAllLanes, sums.nonfinite, offset);
    for (int k = 0; k < 4; ++k) {
      other.power[k] = __shfl_down_sync(kAllLanes, sums.power[k], offset);
    }
    other.squares = __shfl_down_sync(kAllLanes, sums.squares, offset);
    other.min = __shfl_down_sync(kAllLanes, sums.min, offset);
    other.max = __shfl_down_sync(kAllLanes, sums.max, offset);
    add(sums, other);
  }
  if (threadIdx.x % 32 == 0) {
    shared[threadIdx.x / 32] = sums;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) {
      add(sums, shared[warp]);
    }
  }
  return sums;
}

/// The number about which moments are taken: 0, or the mean of 32 weights of the first row where
/// they lie closer to it than to 0 (then powers about 0 would cancel). Every warp finds the same.
template <OperandSource Source>
__device__ inline double shift_of(const decode::DecodeView& view) {
  const auto lane = static_cast<std::int64_t>(threadIdx.x % 32);
  const auto sample =
      static_cast<double>(device::weight_at<Source>(view, 0, lane * view.cols / 32));
  double sum = sample;
  double squares = sample * sample;
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(kAllLanes, sum, offset);
    squares += __shfl_xor_sync(kAllLanes, squares, offset);
  }
  const double mean = sum / 32.0;
  const double variance = squares / 32.0 - mean * mean;
  return mean * mean > 4.0 * variance && isfinite(squares) ? mean : 0.0;
}

/// `value` 2^-exponent; two steps, as neither factor alone need be a float32.
__device__ inline float scale_down(float value, int exponent) {
  const int half = exponent / 2;
  return value * bits_as<float>(static_cast<std::uint32_t>(127 - half) << 23U) *
         bits_as<float>(static_cast<std::uint32_t>(127 - (exponent - half)) << 23U);
}

/// Bit i: the sign of element first + i stride is turned.
__device__ inline std::uint32_t sign_flips(std::uint64_t key, std::uint64_t draw,
                                           std::int64_t first, std::int64_t stride) {
  std::uint32_t flips = 0;
#pragma unroll 1
  for (int i = 0; i < kRun; ++i) {
    const bool flip = philox_bit(key, static_cast<std::uint64_t>(first + i * stride), draw);
    flips |= static_cast<std::uint32_t>(flip) << static_cast<unsigned>(i);
  }
  return flips;
}

/// Writes a run as two 16-byte pieces, `first` even, of row `row` of an operand tile.
template <Element Kind>
__device__ inline void store_run(unsigned char* tile, int row, int first,
                                 const float (&values)[kRun]) {
#pragma unroll
  for (int piece = 0; piece < 2; ++piece) {
    std::uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float low = values[8 * piece + 2 * i];
      const float high = values[8 * piece + 2 * i + 1];
      words[i] = Kind == Element::kBfloat16 ? device::to_bfloat_pair(low, high)
                                            : device::to_half_pair(low, high);
    }
    *reinterpret_cast<uint4*>(tile + operand_piece(row, first + piece)) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// What enters the product for a run, and its weights; both zero outside the matrix.
struct Run {
  float operands[kRun];
  float weights[kRun];
  int valid;
};

template <OperandSource Source, Element Kind>
__device__ inline void read_run(const decode::DecodeView& view, float block_scale, std::int64_t row,
                                std::int64_t col, Run& run) {
  const std::int64_t left = row < view.rows ? view.cols - col : 0;
  run.valid = static_cast<int>(left < 0 ? 0 : left < kRun ? left : kRun);
  if (run.valid == kRun) {
    if constexpr (Kind == Element::kBlockScaledHalf) {
      device::read_codes<Source>(view, row, col, run.operands);
    } else {
      device::read_weights<Source>(view, row, col, run.operands);
    }
  } else {
    float edge[kRun] = {};
#pragma unroll 1
    for (int i = 0; i < run.valid; ++i) {
      edge[i] = Kind == Element::kBlockScaledHalf ? device::code_at<Source>(view, row, col + i)
                                                  : device::weight_at<Source>(view, row, col + i);
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      run.operands[i] = edge[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    run.weights[i] =
        Kind == Element::kBlockScaledHalf ? run.operands[i] * block_scale : run.operands[i];
    run.operands[i] = isfinite(run.weights[i]) ? run.operands[i] : 0.0F;
  }
}

template <OperandSource Source, Element Kind>
__global__ void __launch_bounds__(kThreads)
    operand_kernel(ViewBatch batch, OperandArguments arguments, GramFacts* facts) {
  const std::int64_t matrix = blockIdx.z;
  const decode::DecodeView& view = batch.views[matrix];
  const std::int64_t local_chunk = static_cast<std::int64_t>(blockIdx.x) / arguments.tiles;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) - local_chunk * arguments.tiles;
  const std::int64_t chunk = arguments.task.first_chunk + local_chunk;
  const bool contracts_rows = arguments.contracts_rows;
  const std::int64_t first_row = (contracts_rows ? chunk : tile) * kTile;
  const std::int64_t first_col = (contracts_rows ? tile : chunk) * kTile;
  const std::int64_t field = (matrix * arguments.chunks + chunk) * arguments.tiles + tile;
  const GramMemory& memory = arguments.memory;
  unsigned char* const operands =
      memory.workspace + matrix * memory.matrix_bytes +
      (tile * arguments.task.chunk_count + local_chunk) * kSlicesPerChunk * kOperandTileBytes;
  const float block_scale =
      Kind == Element::kBlockScaledHalf ? device::scale_at(view, first_row, first_col) : 1.0F;
  const double shift = arguments.task.sums ? shift_of<Source>(view) : 0.0;
  const int exponent = arguments.shifted ? facts[matrix].operand_exponent : 0;

  WeightSums sums = no_sums();
  for (int index = static_cast<int>(threadIdx.x); index < kTile * kRunsPerRow; index += kThreads) {
    const int row = index / kRunsPerRow;
    const int col = index % kRunsPerRow * kRun;
    Run run;
    read_run<Source, Kind>(view, block_scale, first_row + row, first_col + col, run);
    if (arguments.task.sums) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        if (i < run.valid) {
          if (isfinite(run.weights[i])) {
            add_weight(sums, run.weights[i], shift);
          } else {
            sums.nonfinite += 1;
          }
        }
      }
    }
    if (!arguments.task.operands) {
      continue;
    }
    if (arguments.task.flip_signs) {
      const std::int64_t r = first_row + row;
      const std::int64_t c = first_col + col;
      const bool transposed = arguments.task.flip_transposed;
      const std::uint32_t flips = sign_flips(batch.sign_flip_keys[matrix], arguments.task.flip_draw,
                                             transposed ? c * view.rows + r : r * view.cols + c,
                                             transposed ? view.rows : 1);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        run.operands[i] = (flips >> i & 1U) != 0 ? -run.operands[i] : run.operands[i];
      }
    }
    if (arguments.shifted) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        run.operands[i] = scale_down(run.operands[i], exponent);
      }
    }
    // Stored columns are neighbours in a row of the operand tile, whichever side is contracted.
    const int along_row = contracts_rows ? col : col % static_cast<int>(kSliceDepth);
    const int slice = (contracts_rows ? row : col) / static_cast<int>(kSliceDepth);
    const int tile_row = contracts_rows ? along_row / 64 * 64 + row % 64 : row;
    const int piece = along_row % 64 / 8;
    unsigned char* const to = operands + slice * kOperandTileBytes;
    store_run<Kind>(to, tile_row, piece, run.operands);
    if (arguments.pair) {
#pragma unroll
      for (int i = 0; i < kRun; i += 2) {
        const std::uint32_t high = device::to_half_pair(run.operands[i], run.operands[i + 1]);
        run.operands[i] -= decode::half_to_float(static_cast<std::uint16_t>(high));
        run.operands[i + 1] -= decode::half_to_float(static_cast<std::uint16_t>(high >> 16U));
      }
      store_run<Kind>(to + memory.part_bytes, tile_row, piece, run.operands);
    }
  }
  if (arguments.task.sums) {
    const WeightSums total =
        block_sum(sums, reinterpret_cast<WeightSums*>(device::dynamic_shared()));
    if (threadIdx.x == 0) {
      reinterpret_cast<WeightSums*>(memory.workspace + memory.sums_offset)[field] = total;
      if constexpr (Kind == Element::kBlockScaledHalf) {
        reinterpret_cast<float*>(memory.workspace + memory.factors_offset)[field] = block_scale;
      }
      if (tile == 0 && chunk == 0) {
        facts[matrix].shift = shift;
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    facts_kernel(OperandKind kind, bool shifted, std::int64_t fields, GramMemory memory,
                 GramFacts* facts) {
  const std::int64_t matrix = blockIdx.x;
  const auto* partial =
      reinterpret_cast<const WeightSums*>(memory.workspace + memory.sums_offset) + matrix * fields;
  WeightSums sums = no_sums();
  for (std::int64_t i = threadIdx.x; i < fields; i += kThreads) {
    add(sums, partial[i]);
  }
  auto* shared = reinterpret_cast<WeightSums*>(device::dynamic_shared());
  sums = block_sum(sums, shared);
  GramFacts& out = facts[matrix];
  if (threadIdx.x == 0) {
    const float largest = fmaxf(sums.max, -sums.min);
    const int exponent = sums.count > 0 && largest > 0.0F ? ilogbf(largest) : 0;
    out.sums = sums;
    out.exponent = exponent;
    out.operand_exponent = !shifted                         ? 0
                           : kind == OperandKind::kBfloat16 ? exponent
                                                            : exponent - kLargestHalfExponent;
    shared->count = exponent;
    shared->zeros = out.operand_exponent;
  }
  __syncthreads();
  const auto exponent = static_cast<int>(shared->count);
  const auto operand_exponent = static_cast<int>(shared->zeros);
  float* const factors =
      reinterpret_cast<float*>(memory.workspace + memory.factors_offset) + matrix * fields;
  for (std::int64_t i = threadIdx.x; i < fields; i += kThreads) {
    const float operand_unit = kind == OperandKind::kBlockScaled ? factors[i] : 1.0F;
    const float factor = scale_down(operand_unit, exponent - operand_exponent);
    factors[i] = isfinite(factor) ? fmaxf(-kLargestFactor, fminf(kLargestFactor, factor)) : 0.0F;
  }
}

}  // namespace

void decode_operands(const OperandPlan& plan, const GramShape& shape, const ViewBatch& batch,
                     std::int64_t matrices, const OperandTask& task, const GramMemory& memory,
                     GramFacts* facts, cudaStream_t stream) {
  const OperandArguments arguments{.memory = memory,
                                   .task = task,
                                   .tiles = shape.tiles(),
                                   .chunks = shape.chunks(),
                                   .contracts_rows = shape.contracts_rows(),
                                   .shifted = plan.shifted && task.operands,
                                   .pair = plan.kind == OperandKind::kHalfPair};
  const dim3 grid(static_cast<unsigned>(task.chunk_count * shape.tiles()), 1,
                  static_cast<unsigned>(matrices));
  const auto run = [&]<OperandSource kSource, Element kKind>() {
    launch(operand_kernel<kSource, kKind>, grid, dim3(kThreads), kWarps * sizeof(WeightSums),
           stream, batch, arguments, facts);
  };
  expects((plan.source == OperandSource::kBF16) == (plan.kind == OperandKind::kBfloat16),
          "bfloat16 operands are made of BF16 weights, and only of them");
  switch (plan.source) {
    case OperandSource::kF16:
      return run.operator()<OperandSource::kF16, Element::kHalf>();
    case OperandSource::kBF16:
      return run.operator()<OperandSource::kBF16, Element::kBfloat16>();
    case OperandSource::kScaledE4M3:
      return plan.kind == OperandKind::kBlockScaled
                 ? run.operator()<OperandSource::kScaledE4M3, Element::kBlockScaledHalf>()
                 : run.operator()<OperandSource::kScaledE4M3, Element::kHalf>();
    case OperandSource::kScaledInt4:
      return run.operator()<OperandSource::kScaledInt4, Element::kHalf>();
    case OperandSource::kF32:
    case OperandSource::kDecoded:
      return run.operator()<OperandSource::kF32, Element::kHalf>();
  }
}

void finish_facts(const OperandPlan& plan, const GramShape& shape, std::int64_t matrices,
                  const GramMemory& memory, GramFacts* facts, cudaStream_t stream) {
  launch(facts_kernel, dim3(static_cast<unsigned>(matrices)), dim3(kThreads),
         kWarps * sizeof(WeightSums), stream, plan.kind, plan.shifted,
         shape.tiles() * shape.chunks(), memory, facts);
}

}  // namespace vindex::kernels
