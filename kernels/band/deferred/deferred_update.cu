// Owns the update of a trailing matrix by all factors of a group of panels (deferred_band.hpp):
//
//   A <- A - sum over slots k of u_k (V_k W_k'^T + W_k' V_k^T),   lower triangle, binary16 parts.
//
// A block of threads keeps the factors of a strip's rows in shared memory for all of its tiles of
// columns, whose factors come by slots, the next ones while one is at work: an element of A costs
// 8 bytes of factors from the L2 cache, where tiles of 128 x 128 that fetch both sides cost 16.
// Every element is read, split and written once for all slots, and rounded once where the former
// pass rounds it for every panel.
#include "deferred_band.hpp"

#include "core/integers.hpp"
#include "kernels/band/band_strips.hpp"
#include "kernels/band/half_pairs.hpp"
#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kPack = 4;
constexpr int kSlotWidth = static_cast<int>(kSlotRow);
/// Distance of rows in shared memory, an odd number of 16 bytes.
constexpr int kSlotStride = kSlotWidth + 4;
/// Rows of a warp, by tiles of 16; its columns are kBand.
constexpr int kRowTiles = 4;
constexpr int kWarpRows = 16 * kRowTiles;
/// Slots of columns in shared memory: one at work, one under way.
constexpr int kStages = 2;

/// Warps of a block: along rows, and along columns of a tile.
template <int kRowWarps, int kColumnWarps>
struct UpdateShape {
  static constexpr int kWarps = kRowWarps * kColumnWarps;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kRows = kRowWarps * kWarpRows;
  static constexpr int kColumns = kColumnWarps * kBandWidth;
  static constexpr std::size_t shared_bytes(int slots) {
    return (static_cast<std::size_t>(slots * kRows + kStages * kColumns) * kSlotStride + kRows) *
           sizeof(float);
  }
};
using WideShape = UpdateShape<2, 4>;    // 227 KiB, four slots
using TallShape = UpdateShape<1, 4>;    // 163 KiB
using NarrowShape = UpdateShape<1, 2>;  // 99 KiB, three

struct Update {
  float* matrices;
  const std::int32_t* exponents;  ///< of the scale to apply in the first update, or null
  const float* slots;
  const float* units;
  std::int64_t order;
  std::int64_t start;  ///< of the trailing matrix
  std::int64_t rows;
  std::int64_t batch;
  std::int64_t together;  ///< matrices of a group (band_strips.hpp)
  int group;              ///< slots of a matrix
  int count;              ///< of them in use
};

/// Adds `unit` times the product of 16 rows with 32 columns. Small terms go first; sums of the
/// tensor cores, which cut towards zero, go over 16 of depth: over 32 the smallest values of a
/// power law of order 1024 erred by a tenth more of what is stated of them.
__device__ void add_product(float (&sum)[HalfProduct::kColumnTiles][4],
                            const HalfProduct::Left& left, const HalfProduct::Right& right,
                            float unit) {
  constexpr int kTiles = HalfProduct::kColumnTiles;
  float terms[kTiles][4];
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (step == 0) {
        device::mma_f16_fresh(terms[j], left.low[step], right.high[step][j]);
      } else {
        device::mma_f16(terms[j], left.low[step], right.high[step][j]);
      }
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      device::mma_f16(terms[j], left.high[step], right.low[step][j]);
    }
  }
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      terms[j][word] *= kLowUnit;
    }
  }
#pragma unroll
  for (int step = 0; step < HalfProduct::kSteps; ++step) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (step == 0) {
        device::mma_f16(terms[j], left.high[step], right.high[step][j]);
      } else {
        device::mma_f16_fresh(terms[j], left.high[step], right.high[step][j]);
      }
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        sum[j][word] = fma(unit, terms[j][word], sum[j][word]);
      }
    }
  }
}

/// What all slots take from a diagonal element, whose factors' rows lie at `own`, `distance` floats
/// from slot to slot. Its terms have one sign, of which the tensor cores, which cut towards zero,
/// would take too little: every eigenvalue would be moved up by as much.
__device__ float diagonal_change(const float* own, int distance, const float* units, int count) {
  float sum = 0.0F;
#pragma unroll 1
  for (int slot = 0; slot < count; ++slot) {
    float dot = 0.0F;
#pragma unroll 1
    for (int column = 0; column < kBandWidth; column += 8) {
      const HalfEight v = load_eight(own + slot * distance + column);
      const HalfEight w = load_eight(own + slot * distance + kBandWidth + column);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        dot = fma(joined(v, i / 2, i % 2), joined(w, i / 2, i % 2), dot);
      }
    }
    sum = fma(2.0F * units[slot], dot, sum);
  }
  return sum;
}

/// Grid: strips x batch in x, the longest strips of a group of matrices first. Block: as `Shape`
/// says. Dynamic shared memory: Shape::shared_bytes(count). Bound by HMMA, 96 for each slot and
/// block of kBand x kBand; a warp multiplies kWarpRows x kBand.
/// kFirst: the matrix is float32 and, where `exponents` is not null, not yet scaled.
template <typename Shape, bool kFirst>
__global__ void __launch_bounds__(Shape::kThreads, 1) update_deferred_kernel(Update in) {
  constexpr int kColumnWarps = Shape::kColumns / kBandWidth;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  // The factors of the columns' rows lie in a lane's order: see half_pairs.hpp.
  const int rows = static_cast<int>(in.rows);
  const int strips = (rows + Shape::kRows - 1) / Shape::kRows;
  const auto together = static_cast<int>(in.together);
  const int first_of_group = static_cast<int>(blockIdx.x) / (strips * together) * together;
  const int here = min(together, static_cast<int>(in.batch) - first_of_group);
  const int within = static_cast<int>(blockIdx.x) - first_of_group * strips;
  const std::int64_t matrix = first_of_group + within % here;
  const int strip_first = (strips - 1 - within / here) * Shape::kRows;
  const int strip_end = min(strip_first + Shape::kRows, rows);
  const int tiles = (strip_end + Shape::kColumns - 1) / Shape::kColumns;
  const int own_first = strip_first + warp / kColumnWarps * kWarpRows;

  auto* const own = reinterpret_cast<float*>(device::dynamic_shared());
  float* const columns = own + in.count * Shape::kRows * kSlotStride;
  const auto order = static_cast<int>(in.order);  // 32 bits hold any distance within the slots
  const float* const slots = in.slots + (matrix * in.group * in.order + in.start) * kSlotRow +
                             static_cast<int>(threadIdx.x) % (kSlotWidth / kPack) * kPack;
  const float* const units = in.units + matrix * in.group;
  const float scale = kFirst && in.exponents != nullptr ? ldexp(1.0F, -in.exponents[matrix]) : 1.0F;

  // The diagonal of the strip's rows, one for each thread, until all else is done.
  float* const diagonal = columns + kStages * Shape::kColumns * kSlotStride;
  const int diagonal_row = strip_first + static_cast<int>(threadIdx.x);
  const bool has_diagonal = static_cast<int>(threadIdx.x) < Shape::kRows && diagonal_row < rows;
  float* const diagonal_eight =
      in.matrices + (matrix * in.order + in.start + min(diagonal_row, rows - 1)) * in.order +
      in.start + min(diagonal_row, rows - 1) / 8 * 8;
  if (has_diagonal) {
    diagonal[threadIdx.x] = kFirst ? diagonal_eight[diagonal_row % 8] * scale
                                   : joined_at(diagonal_eight, diagonal_row % 8);
  }

  // Four rows of a slot at a time: 16 lanes a row. Rows beyond the matrix are its last one.
  constexpr int kLanesPerRow = kSlotWidth / kPack;
  constexpr int kRowsAtOnce = Shape::kThreads / kLanesPerRow;
  const int copy_row = static_cast<int>(threadIdx.x) / kLanesPerRow;
  const int copy_column = static_cast<int>(threadIdx.x) % kLanesPerRow * kPack;
  // Places of rows that have no bit in common add up.
  static_assert(kBandWidth % kRowsAtOnce == 0 && (kRowsAtOnce & (kRowsAtOnce - 1)) == 0);
  const int place = eight_place(copy_row) * kSlotStride + copy_column;
  const auto source = [&](int slot, int row) {
    return slots + (slot * order + min(row, rows - 1)) * kSlotWidth;
  };
  const auto fetch = [&](int tile, int slot, int stage) {
    if (tile < tiles) {
      float* to = columns + stage * Shape::kColumns * kSlotStride + place;
#pragma unroll
      for (int i = 0; i < Shape::kColumns; i += kRowsAtOnce) {
        constexpr int kBlock = kBandWidth;
        const int block_place = i / kBlock * kBlock + eight_place(i % kBlock);
        device::copy_async_16(to + block_place * kSlotStride,
                              source(slot, tile * Shape::kColumns + i + copy_row));
      }
      if (tile == 0) {
        float* to_own = own + slot * Shape::kRows * kSlotStride + copy_column;
#pragma unroll
        for (int i = 0; i < Shape::kRows; i += kRowsAtOnce) {
          device::copy_async_16(to_own + (i + copy_row) * kSlotStride,
                                source(slot, strip_first + i + copy_row));
        }
      }
    }
    device::copy_async_commit();
  };
  fetch(0, 0, 0);

  int stage = 0;
#pragma unroll 1
  for (int tile = 0; tile < tiles; ++tile) {
    const int column_first = tile * Shape::kColumns + warp % kColumnWarps * kBandWidth;
    // A warp whose columns lie right of its rows, or beyond the matrix, has nothing to do.
    const bool live = own_first < rows && column_first < min(own_first + kWarpRows, rows);
    float sums[kRowTiles][HalfProduct::kColumnTiles][4] = {};
#pragma unroll 1
    for (int slot = 0; slot < in.count; ++slot) {
      device::copy_async_wait<0>();
      __syncthreads();  // also the end of what the stage before read
      const bool is_last = slot + 1 == in.count;
      fetch(is_last ? tile + 1 : tile, is_last ? 0 : slot + 1, 1 - stage);
      if (live) {
        const float* const of_columns =
            columns + (stage * Shape::kColumns + warp % kColumnWarps * kBandWidth) * kSlotStride;
        const float* const of_rows =
            own + (slot * Shape::kRows + own_first - strip_first) * kSlotStride;
        const float unit = units[slot];
#pragma unroll 1
        for (int which = 0; which < 2; ++which) {  // V of rows with W of columns, and W with V
          const HalfProduct::Right right = HalfProduct::load_right(
              AlongDepth<float>{of_columns + (1 - which) * kBandWidth, kSlotStride}, lane);
#pragma unroll
          for (int i = 0; i < kRowTiles; ++i) {
            add_product(sums[i],
                        HalfProduct::load_left(
                            AlongDepth<float>{of_rows + which * kBandWidth, kSlotStride}, i, lane),
                        right, unit);
          }
        }
      }
      stage = 1 - stage;
    }
    if (!live) {
      continue;
    }
    float* const values = in.matrices +
                          (matrix * in.order + in.start + own_first + lane / 4) * in.order +
                          in.start + column_first + lane % 4 * 8;
#pragma unroll
    for (int block = 0; block < kRowTiles / 2; ++block) {
      // Blocks above the diagonal and rows beyond the matrix stay as they are.
      if (own_first + block * kBandWidth >= rows || own_first + block * kBandWidth < column_first) {
        continue;
      }
      HalfEight old[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        old[i] = load_eight(values + (block * kBandWidth + 8 * i) * in.order);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        HalfEight changed;
#pragma unroll
        for (int j = 0; j < HalfProduct::kColumnTiles; ++j) {
          const float(&sum)[4] = sums[2 * block + i / 2][j];
          const auto before = [&](int which) {
            return kFirst ? float_of(old[i], j, which) * scale : joined(old[i], j, which);
          };
          const HalfPair pair =
              split_pair(before(0) - sum[i % 2 * 2], before(1) - sum[i % 2 * 2 + 1]);
          changed.high[j] = pair.high;
          changed.low[j] = pair.low;
        }
        store_eight(values + (block * kBandWidth + 8 * i) * in.order, changed);
      }
    }
  }
  device::copy_async_wait<0>();
  __syncthreads();
  if (has_diagonal) {
    const float change = diagonal_change(own + static_cast<int>(threadIdx.x) * kSlotStride,
                                         Shape::kRows * kSlotStride, units, in.count);
    store_at(diagonal_eight, diagonal_row % 8, diagonal[threadIdx.x] - change);
  }
}

template <typename Shape>
void launch_update(Update update, bool is_first, cudaStream_t stream) {
  const std::int64_t each =
      update.rows * update.count * kSlotRow * static_cast<std::int64_t>(sizeof(float));
  update.together = std::clamp<std::int64_t>(kCachedFactorBytes / each, 1, update.batch);
  const std::int64_t strips = ceil_divide(update.rows, std::int64_t{Shape::kRows});
  launch(is_first ? update_deferred_kernel<Shape, true> : update_deferred_kernel<Shape, false>,
         dim3(static_cast<unsigned>(strips * update.batch)), dim3(Shape::kThreads),
         Shape::shared_bytes(update.count), stream, update);
}

}  // namespace

int deferred_panels(std::int64_t order, std::size_t shared_bytes) {
  // Per panel with r rows behind it an update moves 4 r^2 bytes and every pending panel twice 256
  // r: over all panels, q of them at a time, n^3 / 24 / q and 4 n^2 (q - 1).
  int wanted = 1;
  while (wanted < kMostDeferred && std::int64_t{wanted} * (wanted + 1) * 96 < order) {
    ++wanted;
  }
  const int most = TallShape::shared_bytes(kMostDeferred) <= shared_bytes ? kMostDeferred
                   : NarrowShape::shared_bytes(3) <= shared_bytes         ? 3
                                                                          : 1;
  return wanted < most ? wanted : most;
}

void update_deferred(const DeferredStep& step, std::size_t shared_bytes, cudaStream_t stream) {
  expects(step.rows > kBand, "rows of a deferred update");
  const bool is_first = step.is_first();
  const Update update{step.matrices,
                      step.scaled ? nullptr : step.exponents,
                      step.slots,
                      step.units,
                      step.order,
                      step.start + kBand,
                      step.rows - kBand,
                      step.batch,
                      0,
                      step.group,
                      step.pending + 1};
  if (WideShape::shared_bytes(update.count) <= shared_bytes && update.rows > TallShape::kRows) {
    launch_update<WideShape>(update, is_first, stream);
  } else if (TallShape::shared_bytes(update.count) <= shared_bytes) {
    launch_update<TallShape>(update, is_first, stream);
  } else {
    launch_update<NarrowShape>(update, is_first, stream);
  }
}

}  // namespace vindex::kernels
