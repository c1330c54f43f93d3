// Owns the pass over E4M3 codes of which a tile shares one scale, by conversions of the device: two
// codes become two binary16 numbers in one instruction, and those are the operands. What comes out
// has the bits of operand_kernel (gram_operands.cu), which converts by arithmetic on bits and is
// bound by the instructions that this takes.
//
//   moments      from a histogram of the codes, as there: additions in float64 per code that exists
//                and tile, not per weight
//   squares      of lines, in 64-bit integers; a lane keeps the 8 columns of its pieces or, where
//                rows are lines, leaves what it has of each row in shared memory
//   not finite   a code whose product with the scale is not finite enters as 0. Products grow with
//                the code's magnitude, so those codes lie above one of them, and a byte-wise
//                addition that reaches the sign bit finds four at once.
//
// A lane takes 8 neighbouring codes at a time: what it reads is half as wide as a load can be, but
// what it writes is one 16-byte piece of a line, and a warp writes whole lines.
#include "native_sums.hpp"

#include "core/philox.hpp"
#include "kernels/device/launch.hpp"
#include "kernels/gram/gram_layout.hpp"
#include "kernels/gram/gram_operands.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

using namespace native;

/// What lies between rows 63 and 64 of an operand tile where rows are contracted: the other panel.
constexpr int kSecondSlice = static_cast<int>(kOperandTileBytes) - 64 * kOperandRowBytes;
static_assert(kPiecesPerRow == 16, "two lanes of a warp share columns");
static_assert(kRowsPerPass == 8, "the swizzle of a lane's pieces is the same in every pass");
static_assert(kCodesPerWarp == 64, "two codes for a lane");

struct NativeArguments {
  GramMemory memory;
  OperandTask task;
  std::int64_t tiles, chunks;
};

__device__ inline std::uint32_t excess_of(float scale) {
  int largest = 126;
  while (largest >= 0 && !isfinite(Format::value_of(static_cast<std::uint32_t>(largest)) * scale)) {
    --largest;
  }
  return static_cast<std::uint32_t>(127 - largest) * 0x01010101U;
}

/// By one warp.
template <bool Sums>
__device__ inline void find_tile_facts(const decode::DecodeView& view, std::int64_t row,
                                       std::int64_t col) {
  const double shift = Sums ? device::shift_of<kSource>(view) : 0.0;
  if (threadIdx.x % 32 == 0) {
    const float scale = device::scale_at(view, row, col);
    NativeShared::facts() = {shift, scale, excess_of(scale)};
  }
}

/// 32 bits of the stream of signs, those of element `index` among them, its own the lowest. Chosen
/// without an index, for which the block would lie in memory.
__device__ inline std::uint32_t signs_from(std::uint64_t key, std::uint64_t draw,
                                           std::uint64_t index) {
  const PhiloxBlock block = philox_block(key, index / 128, draw);
  const bool odd = (index & 32U) != 0;
  const std::uint32_t low = odd ? block.word[1] : block.word[0];
  const std::uint32_t high = odd ? block.word[3] : block.word[2];
  return ((index & 64U) != 0 ? high : low) >> (index & 31U);
}

/// Bit i: the sign of element first + i stride is turned. Bits above the eighth mean nothing.
__device__ inline std::uint32_t piece_flips(std::uint64_t key, std::uint64_t draw,
                                            std::int64_t first, std::int64_t stride) {
  const auto index = static_cast<std::uint64_t>(first);
  if (stride == 1 && index % 32 <= 32 - kPiece) {
    return signs_from(key, draw, index);
  }
  std::uint32_t flips = 0;
#pragma unroll 1
  for (int i = 0; i < kPiece; ++i) {
    const std::uint32_t bits =
        signs_from(key, draw, static_cast<std::uint64_t>(first + i * stride));
    flips |= (bits & 1U) << static_cast<unsigned>(i);
  }
  return flips;
}

/// Codes [0, valid) at `from`, 0 behind them.
__device__ inline uint2 edge_codes(const std::uint8_t* from, int valid) {
  std::uint64_t codes = 0;
#pragma unroll 1
  for (int i = 0; i < valid; ++i) {
    codes |= static_cast<std::uint64_t>(from[i]) << static_cast<unsigned>(8 * i);
  }
  return make_uint2(static_cast<std::uint32_t>(codes), static_cast<std::uint32_t>(codes >> 32U));
}

/// The same codes, 0 for those that are not finite under the scale.
__device__ inline std::uint32_t finite_codes(std::uint32_t codes, std::uint32_t excess) {
  return codes & ~device::bytes_of_signs((codes & 0x7F7F7F7FU) + excess);
}

/// Grid    x: 128 x 128 tiles of the matrix, z: matrices. Block: kThreads, 128.
/// Shared  NativeShared::bytes(): 8.8 KiB where stored rows are contracted, else 22.8.
/// Bound   by memory as modelled: a code is read once and written as two bytes. Additions to the
///         histogram come next: 512 of a warp per tile.
template <typename Pass>
__global__ void __launch_bounds__(kThreads, Pass::kBlocks)
    native_operand_kernel(ViewBatch batch, NativeArguments arguments, GramFacts* facts) {
  const std::int64_t matrix = blockIdx.z;
  const decode::DecodeView& view = batch.views[matrix];
  const std::int64_t local_chunk = static_cast<std::int64_t>(blockIdx.x) / arguments.tiles;
  const std::int64_t tile = static_cast<std::int64_t>(blockIdx.x) - local_chunk * arguments.tiles;
  const std::int64_t chunk = arguments.task.first_chunk + local_chunk;
  const std::int64_t first_row = (Pass::kContractsRows ? chunk : tile) * kTileSide;
  const std::int64_t first_col = (Pass::kContractsRows ? tile : chunk) * kTileSide;
  const GramMemory& memory = arguments.memory;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto warp = static_cast<std::uint32_t>(device::warp_of_block());

  if (warp == 0) {
    find_tile_facts<Pass::kSums>(view, first_row, first_col);
  }
  if constexpr (Pass::kSums) {
    uint4* const counts = reinterpret_cast<uint4*>(device::dynamic_shared());
#pragma unroll
    for (int i = 0; i < kCodes / 4 / 32; ++i) {
      counts[i * kThreads + thread] = make_uint4(0, 0, 0, 0);
    }
  }
  __syncthreads();
  const std::uint32_t excess = NativeShared::facts().excess;

  // Pass i is of row `row` + 8 i of the tile.
  const int row = thread / kPiecesPerRow;
  const int piece = thread % kPiecesPerRow;
  const std::int64_t stride = view.row_stride_bytes;
  const std::int64_t rows = view.rows - first_row < kTileSide ? view.rows - first_row : kTileSide;
  const std::int64_t cols = view.cols - first_col < kTileSide ? view.cols - first_col : kTileSide;
  const std::uint8_t* const from =
      view.codes + (first_row + row) * stride + first_col + piece * kPiece;
  // Stored columns are neighbours in a row of the operand tile, whichever side is contracted: 8
  // pieces of its 16 are of the first slice, or of the first 64 lines.
  unsigned char* const to =
      memory.workspace + matrix * memory.matrix_bytes +
      (tile * arguments.task.chunk_count + local_chunk) * kSlicesPerChunk * kOperandTileBytes +
      (Pass::kContractsRows ? piece / 8 * kPanelBytes : piece / 8 * kOperandTileBytes) +
      operand_piece(row, piece % 8);

  std::uint64_t columns[kPiece] = {};
  /// Two words of codes.
  const auto convert = [&](int pass, const uint2& words) {
    std::uint32_t pairs[4];
    std::uint64_t of_row = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t codes = finite_codes(i < 2 ? words.x : words.y, excess);
      pairs[i] = device::e4m3_pair_to_half(i % 2 == 0 ? codes : codes >> 16U);
      if constexpr (Pass::kSums) {
        const std::uint64_t low = device::e4m3_square(device::low_half(pairs[i]));
        const std::uint64_t high = device::e4m3_square(device::high_half(pairs[i]));
        if constexpr (Pass::kContractsRows) {
          columns[2 * i] += low;
          columns[2 * i + 1] += high;
        } else {
          of_row += low;
          of_row += high;
        }
      }
    }
    if constexpr (Pass::kSums) {
      count_codes(warp, words.x);
      count_codes(warp, words.y);
      if constexpr (!Pass::kContractsRows) {
        NativeShared::lines()[(row + pass * kRowsPerPass) * NativeShared::kRowStride + piece] =
            of_row;
      }
    }
    if constexpr (Pass::kOperands) {
      if constexpr (Pass::kFlips) {
        const std::int64_t r = first_row + row + pass * kRowsPerPass;
        const std::int64_t c = first_col + piece * kPiece;
        const bool transposed = arguments.task.flip_transposed;
        const std::uint32_t flips = piece_flips(
            batch.sign_flip_keys[matrix], arguments.task.flip_draw,
            transposed ? c * view.rows + r : r * view.cols + c, transposed ? view.rows : 1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          pairs[i] ^= (flips >> (2 * i) & 1U) << 15U | (flips >> (2 * i + 1) & 1U) << 31U;
        }
      }
      // Rows of the second 64 are, where they are contracted, of the second slice.
      const int pass_bytes = pass * kRowsPerPass * kOperandRowBytes +
                             (Pass::kContractsRows && pass >= kPasses / 2 ? kSecondSlice : 0);
      *reinterpret_cast<uint4*>(to + pass_bytes) =
          make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    }
  };
  const bool is_aligned =
      (reinterpret_cast<std::uintptr_t>(view.codes) | static_cast<std::uintptr_t>(stride)) %
          kPiece ==
      0;
  if (rows == kTileSide && cols == kTileSide && is_aligned) {
    const std::uint8_t* codes = from;
    uint2 next = __ldg(reinterpret_cast<const uint2*>(codes));
#pragma unroll Pass::kUnrolled
    for (int pass = 0; pass < kPasses; ++pass) {
      const uint2 words = next;
      codes += pass + 1 < kPasses ? kRowsPerPass * stride : 0;
      next = __ldg(reinterpret_cast<const uint2*>(codes));
      convert(pass, words);
    }
  } else {
    const std::int64_t left = cols - piece * kPiece;
    const int valid = static_cast<int>(left < 0 ? 0 : left < kPiece ? left : kPiece);
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) {
      convert(pass, edge_codes(from + pass * kRowsPerPass * stride,
                               row + pass * kRowsPerPass < rows ? valid : 0));
    }
  }
  if constexpr (!Pass::kSums) {
    return;
  }
  if constexpr (Pass::kContractsRows) {
    leave_columns(columns);
  }
  __syncthreads();
  const TileFacts known = NativeShared::facts();
  sum_codes(known, static_cast<std::uint32_t>(kTileSide * kTileSide - rows * cols));
  const std::int64_t field = (matrix * arguments.chunks + chunk) * arguments.tiles + tile;
  const double unit =
      0x1p-18 * (static_cast<double>(known.scale) * static_cast<double>(known.scale));
  const std::uint64_t squares = line_of_thread<Pass::kContractsRows>();
  reinterpret_cast<double*>(memory.workspace + memory.squares_offset)[field * kTileSide + thread] =
      squares > 0 ? static_cast<double>(squares) * unit : 0.0;
  __syncthreads();
  if (thread == 0) {
    WeightSums total = NativeShared::sums()[0];
    for (int part = 1; part < 2 * kWarps; ++part) {
      device::add(total, NativeShared::sums()[part]);
    }
    reinterpret_cast<WeightSums*>(memory.workspace + memory.sums_offset)[field] = total;
    reinterpret_cast<float*>(memory.workspace + memory.factors_offset)[field] = known.scale;
    if (tile == 0 && chunk == 0) {
      facts[matrix].shift = known.shift;
    }
  }
}

}  // namespace

void convert_operands(const GramShape& shape, const ViewBatch& batch, std::int64_t matrices,
                      const OperandTask& task, const GramMemory& memory, GramFacts* facts,
                      cudaStream_t stream) {
  const NativeArguments arguments{
      .memory = memory, .task = task, .tiles = shape.tiles(), .chunks = shape.chunks()};
  const dim3 grid(static_cast<unsigned>(task.chunk_count * shape.tiles()), 1,
                  static_cast<unsigned>(matrices));
  const auto launch_pass = [&]<typename Pass>(Pass /*pass*/) {
    launch(native_operand_kernel<Pass>, grid, dim3(kThreads),
           static_cast<std::size_t>(NativeShared::bytes<Pass>()), stream, batch, arguments, facts);
  };
  const auto oriented = [&]<bool kContractsRows>() {
    if (!task.operands) {
      return launch_pass(NativePass<kContractsRows, true, false>{});
    }
    if (!task.sums) {
      return task.flip_signs ? launch_pass(NativePass<kContractsRows, false, true, true>{})
                             : launch_pass(NativePass<kContractsRows, false, true>{});
    }
    return task.flip_signs ? launch_pass(NativePass<kContractsRows, true, true, true>{})
                           : launch_pass(NativePass<kContractsRows, true, true>{});
  };
  if (shape.contracts_rows()) {
    oriented.template operator()<true>();
  } else {
    oriented.template operator()<false>();
  }
}

}  // namespace vindex::kernels
