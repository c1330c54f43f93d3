// Owns the pass over the codes of a batch: operands of the tensor cores and, on the way, sums of
// the weights and of the squares of every line. What an operand is, code or shifted weight or its
// two halves, and why that loses nothing, stands in gram_plan.hpp.
//
// Sums and operands share the read of the codes, which is most of the time; where both at once
// would take too many registers, the kernel is compiled for one of them and runs twice.
#include "gram_layout.hpp"
#include "gram_operands.hpp"
#include "gram_sums.hpp"

#include "core/philox.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using device::CodeCounts;
using device::kAllLanes;
using device::kRun;
using device::kRunsPerRow;
using device::LineSquares;
using device::ThreadSums;

constexpr int kThreads = device::kSumThreads;
constexpr int kTile = device::kTileSide;

/// What a kernel is compiled for; the rest is decided when it runs. Sums in float64 and operands
/// together keep so many numbers in registers that few warps would find room.
enum class Element { kHalf, kBfloat16, kBlockScaledHalf };
template <OperandSource Source, Element Kind, bool Sums, bool Operands>
struct OperandPass {
  static constexpr OperandSource kSource = Source;
  static constexpr Element kKind = Kind;
  static constexpr bool kCounted = Kind == Element::kBlockScaledHalf;
  static constexpr bool kSums = Sums;
  static constexpr bool kOperands = Operands;
  static constexpr int kBlocks = Sums && !kCounted ? 2 : 3;  ///< that a multiprocessor should hold
};

struct OperandArguments {
  GramMemory memory;
  OperandTask task;
  std::int64_t tiles, chunks;
  bool contracts_rows, shifted, pair;
};

/// Shared memory of a block, one after the other: sums of warps, squares of lines, counts of codes.
struct SharedSums {
  static constexpr int kSumsBytes = device::kSumWarps * static_cast<int>(sizeof(WeightSums));
  static constexpr int kLineBytes = LineSquares<double>::kSharedBytes;
  static constexpr int kCountBytes =
      device::kSumWarps * CodeCounts::kBins * static_cast<int>(sizeof(std::uint32_t));
  static_assert(kSumsBytes % 8 == 0);

  static constexpr int bytes(Element kind) {
    return kSumsBytes + kLineBytes + (kind == Element::kBlockScaledHalf ? kCountBytes : 0);
  }
  __device__ static WeightSums* sums() {
    return reinterpret_cast<WeightSums*>(device::dynamic_shared());
  }
  __device__ static void* lines() { return device::dynamic_shared() + kSumsBytes; }
  __device__ static CodeCounts counts() {
    return {reinterpret_cast<std::uint32_t*>(device::dynamic_shared() + kSumsBytes + kLineBytes)};
  }
};

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

/// Columns [col, col + kRun) of a row, of which the first `valid` lie in the matrix.
struct Place {
  std::int64_t row, col;
  int valid;

  __device__ Place(const decode::DecodeView& view, std::int64_t at_row, std::int64_t at_col)
      : row(at_row), col(at_col) {
    const std::int64_t left = row < view.rows ? view.cols - col : 0;
    valid = static_cast<int>(left < 0 ? 0 : left < kRun ? left : kRun);
  }
};

/// What enters the product for a run of E4M3 codes under the scale of their tile: the codes, 0 for
/// what is not finite or outside. Sums are taken as gram_sums.hpp says.
template <OperandSource Source, bool TakesSums>
__device__ inline void read_counted_run(const decode::DecodeView& view, float block_scale,
                                        const Place& place, const CodeCounts& counts,
                                        LineSquares<std::uint64_t>& lines,
                                        float (&operands)[kRun]) {
  using Format = device::SourceFormat<Source>;
  static_assert(Format::kBits == 8);
  const std::uint8_t* const from = view.codes + place.row * view.row_stride_bytes + place.col;
  std::uint32_t words[kRun / 4] = {};
  if (place.valid == kRun) {
    device::load_codes(from, words);
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      words[i / 4] |= i < place.valid ? static_cast<std::uint32_t>(from[i]) << (8 * (i % 4)) : 0U;
    }
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const std::uint32_t code = words[i / 4] >> (8 * (i % 4)) & 0xFFU;
    const float value = Format::value_of(code);
    operands[i] = isfinite(value * block_scale) ? value : 0.0F;
    if constexpr (TakesSums) {
      if (i < place.valid) {
        counts.count(code);
      }
      lines.add(i, device::e4m3_square(operands[i]));
    }
  }
}

/// The same where weights enter the product; sums are taken of them one by one, or by their codes.
template <OperandSource Source, bool TakesSums>
__device__ inline void read_run(const decode::DecodeView& view, double shift, const Place& place,
                                ThreadSums& sums, LineSquares<double>& lines,
                                float (&operands)[kRun]) {
  if constexpr (TakesSums && Source == OperandSource::kScaledInt4) {
    if (place.valid == kRun && device::run_shares_scale(view)) {
      const float scale = device::scale_at(view, place.row, place.col);
      if (device::sums_by_codes(view, scale, shift)) {
        device::read_codes<Source>(view, place.row, place.col, operands);
        device::add_codes(sums, lines, operands, scale);
#pragma unroll
        for (float& operand : operands) {
          operand *= scale;
        }
        return;
      }
    }
  }
  if (place.valid == kRun) {
    device::read_weights<Source>(view, place.row, place.col, operands);
  } else {
    float edge[kRun] = {};
#pragma unroll 1
    for (int i = 0; i < place.valid; ++i) {
      edge[i] = device::weight_at<Source>(view, place.row, place.col + i);
    }
#pragma unroll
    for (int i = 0; i < kRun; ++i) {
      operands[i] = edge[i];
    }
  }
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const bool counts = TakesSums && i < place.valid;
    if (!isfinite(operands[i])) {
      sums.nonfinite += counts ? 1 : 0;
      operands[i] = 0.0F;
    } else if (counts) {
      sums.add(operands[i], shift);
      const auto w = static_cast<double>(operands[i]);
      lines.add_product(i, w, w);
    }
  }
}

// Grid: x tiles of lines times chunks, z matrices. Block: kThreads. Shared: SharedSums where sums
// are taken, else none. Bound by: instructions per weight (conversions, sums in float64), then by
// memory.
template <typename Pass>
__global__ void __launch_bounds__(kThreads, Pass::kBlocks)
    operand_kernel(ViewBatch batch, OperandArguments arguments, GramFacts* facts) {
  constexpr OperandSource kSource = Pass::kSource;
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
  const float block_scale = Pass::kCounted ? device::scale_at(view, first_row, first_col) : 1.0F;
  const double shift = Pass::kSums ? device::shift_of<kSource>(view) : 0.0;
  const int exponent = arguments.shifted ? facts[matrix].operand_exponent : 0;

  ThreadSums sums;
  LineSquares<std::conditional_t<Pass::kCounted, std::uint64_t, double>> lines(contracts_rows,
                                                                               SharedSums::lines());
  if constexpr (Pass::kCounted && Pass::kSums) {
    SharedSums::counts().clear();
  }
  for (int index = static_cast<int>(threadIdx.x); index < kTile * kRunsPerRow; index += kThreads) {
    const int row = index / kRunsPerRow;
    const int col = index % kRunsPerRow * kRun;
    const Place place(view, first_row + row, first_col + col);
    float values[kRun];
    if constexpr (Pass::kCounted) {
      read_counted_run<kSource, Pass::kSums>(view, block_scale, place, SharedSums::counts(), lines,
                                             values);
    } else {
      read_run<kSource, Pass::kSums>(view, shift, place, sums, lines, values);
    }
    if constexpr (Pass::kSums) {
      lines.end_run(row);
    }
    if constexpr (!Pass::kOperands) {
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
        values[i] = (flips >> i & 1U) != 0 ? -values[i] : values[i];
      }
    }
    if (arguments.shifted) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        values[i] = device::scale_down(values[i], exponent);
      }
    }
    // Stored columns are neighbours in a row of the operand tile, whichever side is contracted.
    const int along_row = contracts_rows ? col : col % static_cast<int>(kSliceDepth);
    const int slice = (contracts_rows ? row : col) / static_cast<int>(kSliceDepth);
    const int tile_row = contracts_rows ? along_row / 64 * 64 + row % 64 : row;
    const int piece = along_row % 64 / 8;
    unsigned char* const to = operands + slice * kOperandTileBytes;
    store_run<Pass::kKind>(to, tile_row, piece, values);
    if (arguments.pair) {
#pragma unroll
      for (int i = 0; i < kRun; i += 2) {
        const std::uint32_t high = device::to_half_pair(values[i], values[i + 1]);
        values[i] -= decode::half_to_float(static_cast<std::uint16_t>(high));
        values[i + 1] -= decode::half_to_float(static_cast<std::uint16_t>(high >> 16U));
      }
      store_run<Pass::kKind>(to + memory.part_bytes, tile_row, piece, values);
    }
  }
  if constexpr (!Pass::kSums) {
    return;
  }
  WeightSums of_thread;
  double unit = 1.0;  // of the squares of lines
  if constexpr (Pass::kCounted) {
    __syncthreads();
    const float value = device::SourceFormat<kSource>::value_of(threadIdx.x);
    of_thread = device::sums_of_bin(value * block_scale, SharedSums::counts().of_thread(), shift);
    unit = 0x1p-18 * (static_cast<double>(block_scale) * static_cast<double>(block_scale));
  } else {
    of_thread = sums.with_squares(lines.sum_of_thread());
  }
  const WeightSums total = device::block_sum(of_thread, SharedSums::sums());
  const auto squares = lines.line_of_thread();
  if (threadIdx.x < kTile) {
    reinterpret_cast<double*>(memory.workspace +
                              memory.squares_offset)[field * kTile + threadIdx.x] =
        squares > 0 ? static_cast<double>(squares) * unit : 0.0;
  }
  if (threadIdx.x == 0) {
    reinterpret_cast<WeightSums*>(memory.workspace + memory.sums_offset)[field] = total;
    if constexpr (Pass::kCounted) {
      reinterpret_cast<float*>(memory.workspace + memory.factors_offset)[field] = block_scale;
    }
    if (tile == 0 && chunk == 0) {
      facts[matrix].shift = shift;
    }
  }
}

}  // namespace

void decode_operands(const OperandPlan& plan, const GramShape& shape, const ViewBatch& batch,
                     std::int64_t matrices, const OperandTask& task, const GramMemory& memory,
                     GramFacts* facts, cudaStream_t stream) {
  if (task.native && plan.kind == OperandKind::kBlockScaled) {
    return convert_operands(shape, batch, matrices, task, memory, facts, stream);
  }
  const OperandArguments arguments{.memory = memory,
                                   .task = task,
                                   .tiles = shape.tiles(),
                                   .chunks = shape.chunks(),
                                   .contracts_rows = shape.contracts_rows(),
                                   .shifted = plan.shifted && task.operands,
                                   .pair = plan.kind == OperandKind::kHalfPair};
  const dim3 grid(static_cast<unsigned>(task.chunk_count * shape.tiles()), 1,
                  static_cast<unsigned>(matrices));
  const auto launch_pass = [&]<typename Pass>(Pass /*pass*/) {
    launch(operand_kernel<Pass>, grid, dim3(kThreads),
           Pass::kSums ? static_cast<std::size_t>(SharedSums::bytes(Pass::kKind)) : 0, stream,
           batch, arguments, facts);
  };
  const auto run = [&]<OperandSource kSource, Element kKind>() {
    if (!task.sums) {
      launch_pass(OperandPass<kSource, kKind, false, true>{});
    } else if (!task.operands) {
      launch_pass(OperandPass<kSource, kKind, true, false>{});
    } else if constexpr (kKind == Element::kBlockScaledHalf) {
      launch_pass(OperandPass<kSource, kKind, true, true>{});
    } else {
      expects(false, "sums and operands in one pass are of block-scaled codes alone");
    }
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

}  // namespace vindex::kernels
