// Owns the sums that native_operands.cu takes of the codes of a tile, and its shared memory: a
// histogram of the codes, and squares by line.
#pragma once
#include "kernels/gram/gram_sums.hpp"

#include <cstdint>
#include <intrinsics.hpp>

namespace vindex::kernels::native {

using device::kAllLanes;
using device::kTileSide;
using device::ThreadSums;

inline constexpr int kThreads = 128;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kPiece = 8;  ///< codes of a 16-byte piece of an operand
inline constexpr int kPiecesPerRow = kTileSide / kPiece;
inline constexpr int kRowsPerPass = kThreads / kPiecesPerRow;
inline constexpr int kPasses = kTileSide / kRowsPerPass;
inline constexpr int kCodes = 256;
inline constexpr int kCodesPerWarp = kCodes / kWarps;

inline constexpr OperandSource kSource = OperandSource::kScaledE4M3;
using Format = device::SourceFormat<kSource>;

/// What a kernel is compiled for.
template <bool ContractsRows, bool Sums, bool Operands, bool Flips = false>
struct NativePass {
  static constexpr bool kContractsRows = ContractsRows;
  static constexpr bool kSums = Sums;
  static constexpr bool kOperands = Operands;
  static constexpr bool kFlips = Flips;
  static constexpr int kBlocks = Flips ? 5 : 8;    ///< that a multiprocessor should hold
  static constexpr int kUnrolled = Flips ? 1 : 4;  ///< passes
};

/// What all threads of a block know of its tile.
struct TileFacts {
  double shift;
  float scale;
  std::uint32_t excess;  ///< in every byte: a magnitude plus this passes 127 if it is not finite
};

/// Shared memory of a block, one after the other: counts of codes of each warp, what is known of
/// the tile, sums of codes, squares of lines. The counts come first and a warp's take 1 KiB, so
/// that a bin's address is put together without an addition.
struct NativeShared {
  static constexpr int kCountBytes = kCodes * static_cast<int>(sizeof(std::uint32_t));
  static constexpr int kFactsOffset = kWarps * kCountBytes;
  static constexpr int kSumsOffset = kFactsOffset + 16;
  static constexpr int kLinesOffset =
      kSumsOffset + 2 * kWarps * static_cast<int>(sizeof(WeightSums));
  /// Where rows are lines: [row][piece], the stride two more than the pieces, against conflicts.
  static constexpr int kRowStride = kPiecesPerRow + 2;
  static_assert(sizeof(TileFacts) == 16 && kLinesOffset % 16 == 0);

  template <typename Pass>
  static constexpr int bytes() {
    constexpr int kLines = Pass::kContractsRows ? kWarps * kTileSide : kTileSide * kRowStride;
    return Pass::kSums ? kLinesOffset + kLines * static_cast<int>(sizeof(std::uint64_t))
                       : kLinesOffset;
  }
  __device__ static TileFacts& facts() {
    return *reinterpret_cast<TileFacts*>(device::dynamic_shared() + kFactsOffset);
  }
  __device__ static WeightSums* sums() {
    return reinterpret_cast<WeightSums*>(device::dynamic_shared() + kSumsOffset);
  }
  __device__ static std::uint64_t* lines() {
    return reinterpret_cast<std::uint64_t*>(device::dynamic_shared() + kLinesOffset);
  }
  /// The counter of a code of `warp`; `code_times_4` may have other bits set above and below.
  __device__ static std::uint32_t* counter(std::uint32_t warp, std::uint32_t code_times_4) {
    return reinterpret_cast<std::uint32_t*>(
        device::dynamic_shared() +
        ((code_times_4 & (kCountBytes - 4U)) | warp * static_cast<std::uint32_t>(kCountBytes)));
  }
};

__device__ inline void count_codes(std::uint32_t warp, std::uint32_t codes) {
  // Codes of either sign and neighbouring exponents, which most are, lie in different banks.
  const std::uint32_t bins = codes ^ (codes >> 3U & 0x10101010U);
  atomicAdd(NativeShared::counter(warp, bins << 2U), 1U);
  atomicAdd(NativeShared::counter(warp, bins >> 6U), 1U);
  atomicAdd(NativeShared::counter(warp, bins >> 14U), 1U);
  atomicAdd(NativeShared::counter(warp, bins >> 22U), 1U);
}
static_assert(device::CodeCounts::bin_of(0x80U) == 0x90U);

/// Adds what the lane `mask` away gives; member by member, so that all of it stays in registers.
__device__ inline void add_exchanged(ThreadSums& to, const ThreadSums& given, int mask) {
  to.count += __shfl_xor_sync(kAllLanes, given.count, mask);
  to.zeros += __shfl_xor_sync(kAllLanes, given.zeros, mask);
  to.nonfinite += __shfl_xor_sync(kAllLanes, given.nonfinite, mask);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    to.power[k] += __shfl_xor_sync(kAllLanes, given.power[k], mask);
  }
  to.min = fminf(to.min, __shfl_xor_sync(kAllLanes, given.min, mask));
  to.max = fmaxf(to.max, __shfl_xor_sync(kAllLanes, given.max, mask));
}
__device__ inline void swap(ThreadSums& a, ThreadSums& b, bool wanted) {
  const auto members = [&](auto& of_a, auto& of_b) {
    const auto kept = of_a;
    of_a = wanted ? of_b : kept;
    of_b = wanted ? kept : of_b;
  };
  members(a.count, b.count);
  members(a.zeros, b.zeros);
  members(a.nonfinite, b.nonfinite);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    members(a.power[k], b.power[k]);
  }
  members(a.min, b.min);
  members(a.max, b.max);
}

/// Sums of all codes to the memory of sums, 32 of them each, in the tree of device::block_sum().
/// Counts are small here, and squares are the second power where that is about 0.
__device__ inline void sum_codes(const TileFacts& tile, std::uint32_t outside) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const bool upper = lane >= 16;
  ThreadSums sums[2];
  double squares[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto code = static_cast<std::uint32_t>(kCodesPerWarp * warp + 32 * half + lane);
    std::uint32_t count = 0;
    for (std::uint32_t of = 0; of < kWarps; ++of) {
      count += *NativeShared::counter(of, device::CodeCounts::bin_of(code) << 2U);
    }
    count -= code == 0 ? outside : 0;
    const WeightSums bin =
        device::sums_of_bin(Format::value_of(code) * tile.scale, count, tile.shift);
    sums[half] = {static_cast<int>(bin.count),
                  static_cast<int>(bin.zeros),
                  static_cast<int>(bin.nonfinite),
                  {bin.power[0], bin.power[1], bin.power[2], bin.power[3]},
                  bin.min,
                  bin.max};
    squares[half] = bin.squares;
  }
  // The first step of two trees at once: a lane goes on with one of them.
  swap(sums[0], sums[1], upper);
  ThreadSums& own = sums[0];
  add_exchanged(own, sums[1], 16);
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) {
    add_exchanged(own, own, offset);
  }
  double own_squares = own.power[1];
  if (tile.shift != 0.0) {
    own_squares = upper ? squares[1] : squares[0];
    own_squares += __shfl_xor_sync(kAllLanes, upper ? squares[0] : squares[1], 16);
    for (int offset = 8; offset > 0; offset /= 2) {
      own_squares += __shfl_xor_sync(kAllLanes, own_squares, offset);
    }
  }
  if (lane % 16 == 0) {
    NativeShared::sums()[2 * warp + lane / 16] = own.with_squares(own_squares);
  }
}

/// Squares of 8 columns, and of the same ones of the lane 16 away, to the memory of lines.
__device__ inline void leave_columns(const std::uint64_t (&own)[kPiece]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const bool upper = lane >= 16;
  std::uint64_t* const to = NativeShared::lines() + threadIdx.x / 32 * kTileSide +
                            lane % kPiecesPerRow * kPiece + (upper ? kPiece / 2 : 0);
#pragma unroll
  for (int i = 0; i < kPiece / 2; ++i) {
    const std::uint64_t kept = upper ? own[i + kPiece / 2] : own[i];
    const std::uint64_t given = upper ? own[i] : own[i + kPiece / 2];
    to[i] = kept + __shfl_xor_sync(kAllLanes, given, 16);
  }
}

/// Squares of the line of the thread's number.
template <bool ContractsRows>
__device__ inline std::uint64_t line_of_thread() {
  constexpr int kParts = ContractsRows ? kWarps : kPiecesPerRow;
  const std::uint64_t* const from =
      NativeShared::lines() + threadIdx.x * (ContractsRows ? 1 : NativeShared::kRowStride);
  std::uint64_t sum = 0;
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    sum += from[part * (ContractsRows ? kTileSide : 1)];
  }
  return sum;
}

}  // namespace vindex::kernels::native
