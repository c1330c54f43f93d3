// Owns the multiplication of code_slices.hpp by wgmma, which takes operands straight out of shared
// memory. A digit of both tiles is copied once for the up to five products that it has: 96 KB a
// chunk. Steps that load their own would want 64 bytes of L2 a cycle, 32 KB for the 512 cycles that
// one takes at the tensor cores' rate; the kernel of binary16 beside gets 28 on an H100.
//
// A warp copies slots of 32 KB, a part of the row tile and one of the column tile, into a ring;
// two warpgroups multiply. While one shifts its sums or adds them to its totals, the other keeps
// the tensor cores busy. Slots of a chunk: the digits, highest first; then, where scales are
// rounded, codes with what rounding took and that with codes, two of 64 steps each.
#include "code_operands.hpp"

#include "kernels/device/launch.hpp"
#include "kernels/gram/gram_ring.hpp"
#include "kernels/gram/gram_tile.hpp"

#include <warpgroup.hpp>

namespace vindex::kernels {

namespace {

using warpgroups::kGroupBytes;
using warpgroups::kMultiplierThreads;
using warpgroups::kMultiplierWarps;
using warpgroups::kThreads;
using warpgroups::kTileBytes;

constexpr int kMultiplierRegisters = 240;
constexpr int kCopierRegisters = 24;
static_assert((2 * kMultiplierRegisters + kCopierRegisters) * 32 <= 16384);
constexpr int kSlotBytes = 2 * kTileBytes;
constexpr int kSlots = 6;
constexpr int kSharedBytes =
    kSlots * kSlotBytes + 2 * kSlots * static_cast<int>(sizeof(device::SharedBarrier));
[[maybe_unused]] constexpr int kDigitSlots = 3;
[[maybe_unused]] constexpr int kHalfSlots = 4;
/// A square of the unit of codes.
[[maybe_unused]] constexpr double kUnit = 0x1p-18;

/// Parts in the slots of a chunk, four bits each, first slots lowest.
[[maybe_unused]] constexpr std::uint64_t kSlotRows = 0x6543012ULL;
[[maybe_unused]] constexpr std::uint64_t kSlotCols = 0x4365012ULL;

/// A place in the ring and how often it has been passed.
struct Slot {
  int index = 0;
  int parity = 0;

  __device__ Slot next() const {
    return index + 1 == kSlots ? Slot{0, parity ^ 1} : Slot{index + 1, parity};
  }
};

/// `full` ends a phase when the bytes of a slot are there, `empty` when all warps are done with
/// them.
struct Ring {
  TrapReport* report;
  std::uint64_t wait_cycles;

  __device__ static device::SharedBarrier* full(int slot) {
    return reinterpret_cast<device::SharedBarrier*>(device::dynamic_shared() +
                                                    kSlots * kSlotBytes) +
           slot;
  }
  __device__ static device::SharedBarrier* empty(int slot) { return full(kSlots + slot); }
  /// A wait that says in the report, where it is in vain, what for.
  [[maybe_unused]] __device__ void wait_full(const Slot& slot) const {
    device::barrier_wait(full(slot.index), slot.parity, wait_cycles, report,
                         trap_code(TrapSite::kFullStage, static_cast<std::uint32_t>(slot.index),
                                   static_cast<std::uint32_t>(slot.parity)));
  }
  [[maybe_unused]] __device__ void release(const Slot& slot) const {
    if (threadIdx.x % 32 == 0) {
      device::barrier_arrive(empty(slot.index));
    }
  }
};

template <bool kRounded>
__device__ inline void produce(const CodeArguments& arguments, const device::TilePair& pair,
                               const Ring& ring) {
  const std::int64_t matrix = blockIdx.z;
  Slot slot;
  for (std::int64_t chunk = 0; chunk < arguments.chunks; ++chunk) {
    const unsigned char* const row =
        arguments.operands + code_operand(arguments, matrix, pair.row, chunk);
    const unsigned char* const col =
        arguments.operands + code_operand(arguments, matrix, pair.col, chunk);
#pragma unroll 1
    for (int i = 0; i < kDigitSlots + (kRounded ? kHalfSlots : 0); ++i) {
      const int parity = slot.parity ^ 1;
      device::barrier_wait(Ring::empty(slot.index), parity, ring.wait_cycles, ring.report,
                           trap_code(TrapSite::kEmptyStage, static_cast<std::uint32_t>(slot.index),
                                     static_cast<std::uint32_t>(parity)));
      device::SharedBarrier* const full = Ring::full(slot.index);
      unsigned char* const to = device::dynamic_shared() + slot.index * kSlotBytes;
      device::barrier_arrive_expecting(full, kSlotBytes);
      device::copy_bulk(to, row + CodeSteps::part(kSlotRows, i) * kOperandTileBytes, kTileBytes,
                        full);
      device::copy_bulk(to + kTileBytes, col + CodeSteps::part(kSlotCols, i) * kOperandTileBytes,
                        kTileBytes, full);
      slot = slot.next();
    }
  }
}

__device__ inline void multiply(std::int32_t (&sums)[64], std::uint64_t a, std::uint64_t b,
                                bool accumulate) {
  device::warpgroup_mma_s8(sums, a, b, accumulate);
}
__device__ inline void multiply(float (&sums)[64], std::uint64_t a, std::uint64_t b,
                                bool accumulate) {
  device::warpgroup_mma_f16<false>(sums, a, b, accumulate);
}

/// The row part of one slot and the column part of one.
struct SlotPair {
  Slot row, col;
};

/// Descriptors of the first slot's parts; those of others, and of later steps, are so many units of
/// 16 bytes further.
struct Operands {
  std::uint64_t row, col;

  __device__ explicit Operands(int warpgroup)
      : row(device::operand_descriptor(
            device::dynamic_shared() + warpgroup * static_cast<int>(kPanelBytes), 16, kGroupBytes)),
        col(device::operand_descriptor(device::dynamic_shared() + kTileBytes, 16, kGroupBytes)) {}
  __device__ static std::uint64_t further(const Slot& slot, int part) {
    return static_cast<std::uint64_t>(slot.index * (kSlotBytes / 16) + part * (32 / 16));
  }
};

/// Multiplies the parts of each pair over their 128 bytes of steps into `sums`, anew or on top, and
/// waits for it.
template <typename T, int kCount>
__device__ inline void multiply_slots(T (&sums)[64], const Operands& operands,
                                      const SlotPair (&pairs)[kCount], bool accumulate) {
  device::hold_sums(sums);
  device::warpgroup_fence();
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int part = 0; part < kOperandRowBytes / 32; ++part) {
      multiply(sums, operands.row + Operands::further(pairs[i].row, part),
               operands.col + Operands::further(pairs[i].col, part),
               accumulate || i > 0 || part > 0);
    }
  }
  device::warpgroup_commit();
  device::warpgroup_wait<0>();
  device::hold_sums(sums);
}

template <typename T>
__device__ inline void scale_sums(T (&sums)[64], T factor) {
#pragma unroll
  for (int j = 0; j < 64; ++j) {
    sums[j] *= factor;
  }
}
/// totals += sums unit. Each number waits for the total of the eighth before it, whose bits are
/// taken times `nothing`, a 0 that the compiler does not know: else it makes all 64 numbers wide
/// before it adds them, for which there are no registers.
__device__ inline void fold(double (&totals)[64], const std::int32_t (&sums)[64], double unit,
                            std::uint32_t nothing) {
  constexpr int kTogether = 8;
#pragma unroll
  for (int j = 0; j < 64; ++j) {
    std::uint32_t number = static_cast<std::uint32_t>(sums[j]);
    if (j >= kTogether) {
      number ^= static_cast<std::uint32_t>(bits_as<std::uint64_t>(totals[j - kTogether])) & nothing;
    }
    totals[j] = fma(device::to_double(static_cast<std::int32_t>(number)), unit, totals[j]);
  }
}

/// The products of the three digits of a chunk (CodeSteps has their order).
[[maybe_unused]] __device__ inline Slot multiply_digits(const Ring& ring, const Operands& operands,
                                                        const Slot& h, double unit,
                                                        std::uint32_t nothing,
                                                        std::int32_t (&sums)[64],
                                                        double (&totals)[64]) {
  const Slot m = h.next();
  const Slot l = m.next();
  ring.wait_full(h);
  multiply_slots(sums, operands, {{h, h}}, false);
  scale_sums(sums, 64);
  ring.wait_full(m);
  multiply_slots(sums, operands, {{h, m}, {m, h}}, true);
  scale_sums(sums, 64);
  ring.wait_full(l);
  multiply_slots(sums, operands, {{h, l}, {m, m}, {l, h}}, true);
  ring.release(h);
  fold(totals, sums, unit * 4096.0, nothing);
  multiply_slots(sums, operands, {{m, l}, {l, m}}, false);
  ring.release(m);
  scale_sums(sums, 64);
  multiply_slots(sums, operands, {{l, l}}, true);
  ring.release(l);
  fold(totals, sums, unit, nothing);
  return l.next();
}

/// Takes off what rounding took: `ratio` and `rest` as code_slices.cu has them.
[[maybe_unused]] __device__ inline Slot take_roundings(const Ring& ring, const Operands& operands,
                                                       const Slot& begin, float ratio, double rest,
                                                       std::uint32_t nothing, float (&taken)[64],
                                                       double (&totals)[64]) {
  Slot first = begin;
#pragma unroll
  for (int side = 0; side < 2; ++side) {
    const Slot second = first.next();
    ring.wait_full(first);
    ring.wait_full(second);
    multiply_slots(taken, operands, {{first, first}, {second, second}}, side > 0);
    ring.release(first);
    ring.release(second);
    if (side == 0) {
      scale_sums(taken, ratio);
    }
    first = second.next();
  }
#pragma unroll
  for (int j = 0; j < 64; ++j) {
    std::uint32_t number = bits_as<std::uint32_t>(taken[j]);
    if (j >= 8) {
      number ^= static_cast<std::uint32_t>(bits_as<std::uint64_t>(totals[j - 8])) & nothing;
    }
    totals[j] = fma(static_cast<double>(bits_as<float>(number)), rest, totals[j]);
  }
  return first;
}

template <bool kRounded>
__device__ inline void consume(const CodeArguments& arguments, const Ring& ring) {
  const auto thread = static_cast<int>(threadIdx.x);
  const Operands operands(thread / 128);
  double totals[64] = {};
  std::int32_t sums[64] = {};
  float taken[64] = {};
  {
    const device::TilePair pair = device::tile_pair(blockIdx.x);
    const TileScale* rows =
        arguments.scales + pair.row +
        static_cast<std::int64_t>(blockIdx.z) * arguments.chunks * arguments.tiles;
    const std::int64_t to_col = pair.col - pair.row;
    Slot slot;
    for (auto left = static_cast<int>(arguments.chunks); left > 0; --left) {
      const double unit = rows[0].scale * rows[to_col].scale * kUnit;
      slot = multiply_digits(ring, operands, slot, unit, arguments.nothing, sums, totals);
      if constexpr (kRounded) {
        const float ratio = device::mantissa_ratio(rows[0], rows[to_col]);
        const double rest = -rows[0].last * rows[to_col].scale;
        slot = take_roundings(ring, operands, slot, ratio, rest, arguments.nothing, taken, totals);
      }
      rows += arguments.tiles;
    }
  }
  const device::TilePair pair = device::tile_pair(blockIdx.x);
  double* const gram = arguments.grams + static_cast<std::int64_t>(blockIdx.z) * arguments.leading *
                                             arguments.leading;
  const std::int64_t first_row = pair.row * GramShape::kTile + thread / 32 * 16 + thread % 32 / 4;
  const std::int64_t first_col = pair.col * GramShape::kTile + thread % 4 * 2;
#pragma unroll
  for (int j = 0; j < 64; ++j) {
    const std::int64_t at_row = first_row + j / 2 % 2 * 8;
    const std::int64_t at_col = first_col + j / 4 * 8 + j % 2;
    if (at_row < arguments.p && at_col <= at_row) {
      gram[at_col * arguments.leading + at_row] = totals[j];
    }
  }
}

// Grid: tile pairs of the lower triangle x 1 x matrices. Block: 384. Shared: 192 KB, so one on a
// multiprocessor. Bound by: the tensor cores (4,608 cycles a chunk) where scales round nothing,
// else L2 (224 KB a chunk, some 8,300 cycles).
template <bool kRounded>
__global__ void __launch_bounds__(kThreads, 1) code_warpgroup_kernel(CodeArguments arguments) {
  if constexpr (device::kHasWarpgroups) {
    const Ring ring{arguments.report, arguments.wait_cycles};
    if (threadIdx.x == 0) {
      device::require_swizzle_alignment(device::dynamic_shared(), arguments.report,
                                        trap_code(TrapSite::kAlignment, 0, 0));
      for (int slot = 0; slot < kSlots; ++slot) {
        device::barrier_init(Ring::full(slot), 1);
        device::barrier_init(Ring::empty(slot), kMultiplierWarps);
      }
      device::barrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x >= kMultiplierThreads) {
      device::warpgroup_give_registers<kCopierRegisters>();
      if (threadIdx.x == kMultiplierThreads) {
        produce<kRounded>(arguments, device::tile_pair(blockIdx.x), ring);
      }
    } else {
      device::warpgroup_take_registers<kMultiplierRegisters>();
      consume<kRounded>(arguments, ring);
    }
  }
}

}  // namespace

void multiply_codes_by_warpgroups(const CodeArguments& arguments, std::int64_t matrices,
                                  cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(arguments.tiles * (arguments.tiles + 1) / 2), 1,
                  static_cast<unsigned>(matrices));
  if (arguments.parts == kRoundedParts) {
    launch(code_warpgroup_kernel<true>, grid, dim3(kThreads), kSharedBytes, stream, arguments);
  } else {
    launch(code_warpgroup_kernel<false>, grid, dim3(kThreads), kSharedBytes, stream, arguments);
  }
}

}  // namespace vindex::kernels
