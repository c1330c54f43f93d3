// Owns what a panel of a reduction with deferred updates leaves (deferred_band.hpp): W, and the
// columns of the next panel and its diagonal block, brought up to date by all pending factors. W is
// a product of rows with the turns that deferred_factors.cu forms.
#include "deferred_band.hpp"

#include "core/integers.hpp"
#include "kernels/band/half_pairs.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>
#include <type_traits>

namespace vindex::kernels {
namespace {

constexpr int kBlockElements = kBandWidth * kBandWidth;
constexpr int kSlotWidth = static_cast<int>(kSlotRow);

constexpr int kAdvanceWarps = 4;

/// unit * (16 rows) * (a block of turns or of the next rows' factors), added to a row of tiles.
template <typename Right>
__device__ void add_turned(float (&sum)[kBlockValues], const HalfProduct::Left& left,
                           const Right& right, float unit, int lane) {
  float terms[kBlockValues];
  HalfProduct::multiply_row<true>(terms, left, HalfProduct::load_right(right, lane), 0);
#pragma unroll
  for (int i = 0; i < kBlockValues / 2; ++i) {
    sum[i] = fma(unit, terms[i], sum[i]);
  }
}

/// What a lane has of a row of 16, of the upper or the lower 8: its eight columns.
__device__ HalfEight eight_of(const float (&values)[kBlockValues], int lower, float scale) {
  HalfEight out;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const HalfPair pair =
        split_pair(values[4 * j + 2 * lower] * scale, values[4 * j + 2 * lower + 1] * scale);
    out.high[j] = pair.high;
    out.low[j] = pair.low;
  }
  return out;
}

/// W of a chunk of rows, and those rows of the block column at `start`. A lane has eight columns
/// of the rows lane / 4 and 8 below, in every operand and result, so that rows go from global
/// memory to the tensor cores and back without shared memory.
/// Grid: chunks of kAdvanceWarps * kBand rows x 1 x batch. Block: kAdvanceWarps warps. Dynamic
/// shared memory: four blocks of kPairBlock floats for each panel, this one included, 18 to 72 KiB.
/// Bound by bytes: 640 a row and 256 for each pending panel.
__global__ void __launch_bounds__(kAdvanceWarps* kWarp, 2)
    advance_deferred_kernel(DeferredStep in) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warp = device::warp_of_block();
  const std::int64_t matrix = blockIdx.z;
  const int first = static_cast<int>(blockIdx.x) * kAdvanceWarps * kBandWidth + warp * kBandWidth;
  const int turn_count = 2 + 2 * in.pending;
  auto* const turns = reinterpret_cast<float*>(device::dynamic_shared());
  // V and W of the next panel's rows, slot by slot.
  float* const next = turns + turn_count * kPairBlock;
  const float* const reflectors = in.reflectors + matrix * in.order * kFactorStride;
  const float* const products = in.products + matrix * in.order * kBand;
  float* const slots = in.slots + (matrix * in.group * in.order + in.start) * kSlotRow;
  const std::int64_t slot_stride = in.order * kSlotRow;
  const float* const units = in.units + matrix * in.group;
  const float* const turn_units = in.turn_units + matrix * kMostTurns;
  const float own_unit = units[in.pending];
  const float own_scale = 1.0F / own_unit;

  {
    const float* from = in.turns + matrix * kMostTurns * kBlockElements;
    for (int i = thread; i < turn_count * kBlockElements / 4; i += kAdvanceWarps * kWarp) {
      device::copy_async_16(turns + i / 8 * kPairRow + i % 8 * 4, from + i * 4);
    }
    device::copy_async_commit();
    // A thread takes eight columns of a row, of V or of W.
    constexpr int kEights = kSlotWidth / 8;
    for (int i = thread; i < in.pending * kBandWidth * kEights; i += kAdvanceWarps * kWarp) {
      const int slot = i / (kBandWidth * kEights);
      const int row = i / kEights % kBandWidth;
      const int eight = i % kEights;
      place_eight(next + (2 * slot + eight / 4) * kPairBlock + eight_place(row) * kPairRow,
                  eight % 4, load_eight(slots + slot * slot_stride + row * kSlotRow + eight * 8));
    }
    const int row = thread / 4;
    place_eight(next + 2 * in.pending * kPairBlock + eight_place(row) * kPairRow, thread % 4,
                split_eight(reflectors + row * kFactorStride + thread % 4 * 8));
    device::copy_async_wait<0>();
    __syncthreads();
  }

  // W of 16 rows from `row` on, of which a lane has two, and, with kNext, what the factors of these
  // rows and of the next panel's take from the block column.
  const int eight = lane % 4 * 8;
  const auto turn = [&](auto is_own, float(&w)[kBlockValues], float(&change)[kBlockValues],
                        int row) {
    constexpr bool kOwn = decltype(is_own)::value;
#pragma unroll 1
    for (int slot = 0; slot < in.pending; ++slot) {
      const float* const rows = slots + slot * slot_stride + (row + lane / 4) * kSlotRow + eight;
      const float* const next_v = next + 2 * slot * kPairBlock;
      const float unit = units[slot];
      {
        const HalfProduct::Left v =
            left_of_eights(load_eight(rows), load_eight(rows + 8 * kSlotRow));
        add_turned(w, v, AcrossDepth<float>{turns + (2 + 2 * slot) * kPairBlock, kPairRow},
                   turn_units[2 + 2 * slot], lane);
        if constexpr (kOwn) {
          add_turned(change, v, AlongDepth<float>{next_v + kPairBlock, kPairRow}, unit, lane);
        }
      }
      const HalfProduct::Left old_w =
          left_of_eights(load_eight(rows + kBand), load_eight(rows + kBand + 8 * kSlotRow));
      add_turned(w, old_w, AcrossDepth<float>{turns + (3 + 2 * slot) * kPairBlock, kPairRow},
                 turn_units[3 + 2 * slot], lane);
      if constexpr (kOwn) {
        add_turned(change, old_w, AlongDepth<float>{next_v, kPairRow}, unit, lane);
      }
    }
    {
      const float* const y = products + (row + lane / 4) * kBand + eight;
      add_turned(w, left_of_eights(split_eight(y), split_eight(y + 8 * kBand)),
                 AcrossDepth<float>{turns, kPairRow}, turn_units[0], lane);
    }
    const float* const v = reflectors + (row + lane / 4) * kFactorStride + eight;
    const HalfEight upper = split_eight(v);
    const HalfEight lower = split_eight(v + 8 * kFactorStride);
    const HalfProduct::Left left = left_of_eights(upper, lower);
    add_turned(w, left, AcrossDepth<float>{turns + kPairBlock, kPairRow}, turn_units[1], lane);
    if constexpr (kOwn) {
      const float* const next_v = next + 2 * in.pending * kPairBlock;
      add_turned(change, left, AlongDepth<float>{next_v + kPairBlock, kPairRow}, own_unit, lane);
      float* const out = slots + in.pending * slot_stride + (row + lane / 4) * kSlotRow + eight;
      store_eight(out, upper);
      store_eight(out + 8 * kSlotRow, lower);
      const HalfEight w_upper = eight_of(w, 0, own_scale);
      const HalfEight w_lower = eight_of(w, 1, own_scale);
      store_eight(out + kBand, w_upper);
      store_eight(out + kBand + 8 * kSlotRow, w_lower);
      add_turned(change, left_of_eights(w_upper, w_lower), AlongDepth<float>{next_v, kPairRow},
                 own_unit, lane);
    }
  };

  if (warp < HalfProduct::kRowTiles) {
    float w[kBlockValues] = {};
    turn(std::false_type{}, w, w, 16 * warp);
    float* const next_w = next + (2 * in.pending + 1) * kPairBlock;
    const int row = 16 * warp + lane / 4;
    place_eight(next_w + eight_place(row) * kPairRow, lane % 4, eight_of(w, 0, own_scale));
    place_eight(next_w + eight_place(row + 8) * kPairRow, lane % 4, eight_of(w, 1, own_scale));
  }
  __syncthreads();
  if (first >= in.rows) {
    return;
  }
  // Behind the first panel the matrix is float32 and may not be scaled.
  const bool is_float = in.is_first();
  const float scale = is_float && !in.scaled ? ldexp(1.0F, -in.exponents[matrix]) : 1.0F;
#pragma unroll 1
  for (int tile = 0; tile < HalfProduct::kRowTiles; ++tile) {
    const int row = first + 16 * tile;
    float w[kBlockValues] = {};
    float change[kBlockValues] = {};
    turn(std::true_type{}, w, change, row);
#pragma unroll
    for (int lower = 0; lower < 2; ++lower) {
      const int own = row + lane / 4 + 8 * lower;
      const HalfEight old = load_eight(
          in.matrices + (matrix * in.order + in.start + own) * in.order + in.start + eight);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float before =
            is_float ? float_of(old, i / 2, i % 2) * scale : joined(old, i / 2, i % 2);
        const float value = before - change[i / 2 * 4 + 2 * lower + i % 2];
        const int column = eight + i;
        if (first > 0) {
          in.columns[(matrix * kBand + column) * in.order + own - kBand] = value;
        } else if (column <= own) {
          in.band[matrix * band_elements(in.order) +
                  band_index(in.start + own, in.start + column)] = value;
        }
      }
    }
  }
}

constexpr int kTakeThreads = 128;

/// The block column at 0, scaled: eight columns of a row for each thread.
/// Grid: blocks of kTakeThreads / 4 rows x 1 x batch. Block: kTakeThreads. Shared: none. Bound by:
/// bytes.
__global__ void __launch_bounds__(kTakeThreads) take_first_kernel(DeferredStep in) {
  const std::int64_t matrix = blockIdx.z;
  const int row =
      static_cast<int>(blockIdx.x) * (kTakeThreads / 4) + static_cast<int>(threadIdx.x) / 4;
  const int eight = static_cast<int>(threadIdx.x) % 4 * 8;
  const float scale = in.scaled ? 1.0F : ldexp(1.0F, -in.exponents[matrix]);
  const float* from = in.matrices + (matrix * in.order + row) * in.order + eight;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float value = from[i] * scale;
    const int column = eight + i;
    if (row >= kBandWidth) {
      in.columns[(matrix * kBand + column) * in.order + row - kBand] = value;
    } else if (column <= row) {
      in.band[matrix * band_elements(in.order) + band_index(row, column)] = value;
    }
  }
}

dim3 grid_of(std::int64_t blocks, std::int64_t batch) {
  return {static_cast<unsigned>(blocks), 1, static_cast<unsigned>(batch)};
}

}  // namespace

void take_first_panel(const DeferredStep& step, cudaStream_t stream) {
  static_assert(kTakeThreads / 4 == kBandWidth);
  launch(take_first_kernel, grid_of(step.order / kBand, step.batch), dim3(kTakeThreads), 0, stream,
         step);
}

void advance_deferred(const DeferredStep& step, cudaStream_t stream) {
  const auto panels = static_cast<std::size_t>(step.pending + 1);
  launch(advance_deferred_kernel,
         grid_of(ceil_divide(step.rows, std::int64_t{kAdvanceWarps} * kBand), step.batch),
         dim3(kAdvanceWarps * kWarp), 4 * panels * kPairBlock * sizeof(float), stream, step);
}

}  // namespace vindex::kernels
