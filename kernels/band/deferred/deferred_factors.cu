// Owns the sums and small factors between the passes of a reduction with deferred updates
// (deferred_band.hpp): of the reflectors V of a panel and Y = A V, where A lacks the factors of the
// panels before, what deferred_advance.cu makes W and the next panel of. With G_k = V_k^T V and H_k
// = W_k^T V:
//
//   V^T A' V = V^T Y - sum over k of (G_k^T H_k + H_k^T G_k),   T and C as in band_factors.cu
//   W = (Y - sum over k of (V_k H_k + W_k G_k)) T + V C
//     = Y T + V C + sum over k of (V_k (-H_k T) + W_k (-G_k T))
//
// so that W is a product of rows, which lie side by side in global memory, with small blocks, the
// turns, and the corrected Y need never be. Sums over rows go by chunks whose results are added in
// order: the same bits for every batch.
#include "deferred_band.hpp"

#include "core/integers.hpp"
#include "kernels/band/half_pairs.hpp"
#include "kernels/band/trailing_pass.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kBlockElements = kBandWidth * kBandWidth;
constexpr int kSlotWidth = static_cast<int>(kSlotRow);
constexpr int kSlotStride = kSlotWidth + 4;  // in shared memory

// ---- sums over rows

constexpr int kSumWarps = kMostTurns;
constexpr int kSumRows = 256;

std::int64_t chunk_count(std::int64_t rows) { return ceil_divide(rows, std::int64_t{kSumRows}); }

/// A lane's four numbers of a row as parts to where its eight begin in shared memory.
__device__ void store_four(float* eight, bool second, const Pack<float, 4>& four) {
  const HalfPair front = split_pair(four.values[0], four.values[1]);
  const HalfPair back = split_pair(four.values[2], four.values[3]);
  float* high = eight + (second ? 2 : 0);
  *reinterpret_cast<Pack<float, 2>*>(high) = {__uint_as_float(front.high),
                                              __uint_as_float(back.high)};
  *reinterpret_cast<Pack<float, 2>*>(high + HalfProduct::kLowPart) = {__uint_as_float(front.low),
                                                                      __uint_as_float(back.low)};
}

/// Completes Y and adds up products with V over a chunk of rows: V^T V, V_k^T V and W_k^T V of
/// every pending panel by the tensor cores, one for each warp, and V^T Y by fused multiply-add. The
/// diagonal of the latter adds up terms of one sign, of which the tensor cores, which cut towards
/// zero, would leave too little: errors of eigenvalues of noise were 1.3 times as large.
/// Grid: chunks of kSumRows rows x 1 x batch. Block: kSumWarps warps. Dynamic shared memory:
/// three blocks and one of slots for each pending panel, 14 to 39 KiB. Bound by bytes: Y in parts.
__global__ void __launch_bounds__(kSumWarps* kWarp, 2) sum_deferred_kernel(DeferredStep in) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warp = device::warp_of_block();
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t chunk_first = blockIdx.x * std::int64_t{kSumRows};
  auto* const v = reinterpret_cast<float*>(device::dynamic_shared());
  float* const v_numbers = v + kPairBlock;
  float* const y_numbers = v_numbers + kPairBlock;
  float* const slots = y_numbers + kPairBlock;

  const int row = warp * 4 + lane / 8;
  const int column = lane % 8 * 4;
  const auto strip_rows = static_cast<int>(in.strip_rows);
  const auto strips = static_cast<int>(strip_count(in.rows, in.strip_rows));
  const std::int64_t strip_stride = in.order * kBand;
  const float* const own_partials = in.partials +
                                    matrix * strip_count(in.order, in.strip_rows) * strip_stride +
                                    row * kBand + column;
  const int products = 1 + 2 * in.pending;

  // What this warp's product has on its left.
  const float* const left =
      warp == 0 ? v
                : slots + (warp - 1) / 2 * kBandWidth * kSlotStride + (warp - 1) % 2 * kBandWidth;
  const int stride = warp == 0 ? kPairRow : kSlotStride;
  float sum[kBlockValues] = {};
  // Of V^T Y a thread has 2 x 4 elements, over half of the rows.
  constexpr int kTileRows = 2;
  constexpr int kTileColumns = 4;
  constexpr int kTilesInRow = kBandWidth / kTileColumns;
  constexpr int kTiles = kBandWidth / kTileRows * kTilesInRow;
  constexpr int kHalves = kSumWarps * kWarp / kTiles;
  constexpr int kHalfRows = kBandWidth / kHalves;
  constexpr int kChain = 8;
  const int half = thread / kTiles;
  const int tile_row = thread % kTiles / kTilesInRow * kTileRows;
  const int tile_column = thread % kTilesInRow * kTileColumns;
  float dots[kTileRows][kTileColumns] = {};
#pragma unroll 1
  for (int block = 0; block < kSumRows / kBandWidth; ++block) {
    const std::int64_t first = chunk_first + block * kBandWidth;
    if (first >= in.rows) {
      break;
    }
    constexpr int kLanesPerRow = kSlotWidth / 4;
    for (int slot = 0; slot < in.pending; ++slot) {
      const float* from =
          in.slots + ((matrix * in.group + slot) * in.order + in.start + first) * kSlotRow;
      float* to = slots + slot * kBandWidth * kSlotStride;
#pragma unroll
      for (int i = 0; i < kBandWidth * kLanesPerRow; i += kSumWarps * kWarp) {
        const int item = i + thread;
        device::copy_async_16(to + item / kLanesPerRow * kSlotStride + item % kLanesPerRow * 4,
                              from + item * 4);
      }
    }
    device::copy_async_commit();
    const auto own_v = *reinterpret_cast<const Pack<float, 4>*>(
        in.reflectors + (matrix * in.order + first + row) * kFactorStride + column);
    auto* const product = reinterpret_cast<Pack<float, 4>*>(
        in.products + (matrix * in.order + first + row) * kBand + column);
    Pack<float, 4> total = *product;
    // Parts of its columns come from every strip below, and from its own unless that ends with this
    // block of rows.
    int strip = first + kBand < in.rows ? static_cast<int>(first + kBand) / strip_rows : strips;
    const float* partials = own_partials + strip * strip_stride + first * kBand;
#pragma unroll 4
    for (; strip < strips; ++strip) {
      const auto part = *reinterpret_cast<const Pack<float, 4>*>(partials);
      partials += strip_stride;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        total.values[k] += part.values[k];
      }
    }
    *product = total;
    store_four(v + row * kPairRow + lane % 8 / 2 * 8, lane % 2 != 0, own_v);
    *reinterpret_cast<Pack<float, 4>*>(v_numbers + row * kPairRow + column) = own_v;
    *reinterpret_cast<Pack<float, 4>*>(y_numbers + row * kPairRow + column) = total;
    device::copy_async_wait<0>();
    __syncthreads();
    if (warp < products) {
      const HalfProduct::Right right =
          HalfProduct::load_right(AcrossDepth<float>{v, kPairRow}, lane);
#pragma unroll
      for (int i = 0; i < HalfProduct::kRowTiles; ++i) {
        HalfProduct::multiply_row<false>(
            sum, HalfProduct::load_left(AcrossDepth<float>{left, stride}, i, lane), right, i);
      }
    }
    // Equal terms, which lines that are alike leave, are all rounded one way in a long chain: eight
    // are added up, and then these sums. Two columns at a time, for lack of registers.
#pragma unroll 1
    for (int eight = 0; eight < kHalfRows; eight += kChain) {
#pragma unroll
      for (int two = 0; two < kTileColumns; two += 2) {
        float terms[kTileRows][2] = {};
#pragma unroll 2
        for (int i = 0; i < kChain; ++i) {
          const int at = (half * kHalfRows + eight + i) * kPairRow;
          const auto of_v =
              *reinterpret_cast<const Pack<float, kTileRows>*>(v_numbers + at + tile_row);
          const auto of_y =
              *reinterpret_cast<const Pack<float, 2>*>(y_numbers + at + tile_column + two);
#pragma unroll
          for (int a = 0; a < kTileRows; ++a) {
            terms[a][0] = fma(of_v.values[a], of_y.values[0], terms[a][0]);
            terms[a][1] = fma(of_v.values[a], of_y.values[1], terms[a][1]);
          }
        }
#pragma unroll
        for (int a = 0; a < kTileRows; ++a) {
          dots[a][two] += terms[a][0];
          dots[a][two + 1] += terms[a][1];
        }
      }
    }
    __syncthreads();
  }
  const std::int64_t chunks = ceil_divide(in.order, std::int64_t{kSumRows});
  float* const out = in.overlaps + (matrix * chunks + blockIdx.x) * kMostTurns * kBlockElements;
  if (warp < products) {  // V^T V first, those of slots from the third block on
    store_values<HalfProduct::Layout>(out + (warp == 0 ? 0 : warp + 1) * kBlockElements, sum,
                                      kBandWidth, lane);
  }
  // The halves' parts of V^T Y, where V and Y were, and added up in order.
  static_assert(kHalves * kBlockElements <= 3 * kPairBlock);
  float* const parts = v;
#pragma unroll
  for (int a = 0; a < kTileRows; ++a) {
    Pack<float, kTileColumns> values;
#pragma unroll
    for (int b = 0; b < kTileColumns; ++b) {
      values.values[b] = dots[a][b];
    }
    *reinterpret_cast<Pack<float, kTileColumns>*>(
        parts + half * kBlockElements + (tile_row + a) * kBandWidth + tile_column) = values;
  }
  __syncthreads();
  for (int i = thread; i < kBlockElements; i += kSumWarps * kWarp) {
    float total = 0.0F;
#pragma unroll
    for (int part = 0; part < kHalves; ++part) {
      total += parts[part * kBlockElements + i];
    }
    out[kBlockElements + i] = total;
  }
}

// ---- small factors

constexpr int kSmallThreads = 512;
constexpr int kOdd = kBandWidth + 1;
constexpr int kOddBlock = kBandWidth * kOdd;

/// sum over k of a[row][k] b[k][column], or of a[k][row] b[k][column] with kAcross.
template <bool kAcross>
__device__ float small_product(const float* a, const float* b, int row, int column, float sum) {
#pragma unroll 8
  for (int k = 0; k < kBandWidth; ++k) {
    sum = fma(a[kAcross ? k * kOdd + row : row * kOdd + k], b[k * kOdd + column], sum);
  }
  return sum;
}

/// T, C, the bound of W and the turns of one matrix, as binary16 parts in the order that
/// advance_deferred_kernel reads them in.
/// Grid: batch. Block: kSmallThreads. Dynamic shared memory: four blocks of kOddBlock floats and
/// two for each pending panel, 17 to 42 KiB. Bound by latency: the rows of T one after the other.
__global__ void __launch_bounds__(kSmallThreads)
    form_turns_kernel(DeferredStep in, std::int64_t chunks, std::int64_t chunk_stride) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarp;
  const int warp = device::warp_of_block();
  const std::int64_t matrix = blockIdx.x;
  auto* const t = reinterpret_cast<float*>(device::dynamic_shared());
  float* const v_y_t = t + kOddBlock;
  float* const v_v = v_y_t + kOddBlock;  // then C
  float* const v_y = v_v + kOddBlock;
  float* const mixed = v_y + kOddBlock;  // G_k and H_k in turn, then -G_k T and -H_k T
  float* const units = in.units + matrix * in.group;

  const int elements = (2 + 2 * in.pending) * kBlockElements;
#pragma unroll 2
  for (int element = thread; element < elements; element += kSmallThreads) {
    const float* sums = in.overlaps + matrix * chunk_stride * kMostTurns * kBlockElements + element;
    float total = 0.0F;
#pragma unroll 8
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      total += sums[chunk * kMostTurns * kBlockElements];
    }
    const int block = element / kBlockElements;
    const int row = element % kBlockElements / kBandWidth;
    const int column = element % kBandWidth;
    if (block == 0) {
      v_v[row * kOdd + column] = total;
    } else if (block == 1) {
      v_y[row * kOdd + column] = total;
    } else {
      mixed[(block - 2) * kOddBlock + row * kOdd + column] =
          block % 2 == 0 ? total : units[block / 2 - 1] * total;
    }
  }
  __syncthreads();
  if (thread < kBandWidth) {
    // Row `thread` of T from left to right; every entry is added to the sums of those behind it as
    // soon as it is known, so that they wait for one multiplication and not for a sum.
    float* row = t + thread * kOdd;
    float sums[kBandWidth] = {};
#pragma unroll
    for (int k = 0; k < kBandWidth; ++k) {
      const float tau = in.taus[matrix * kBand + k];
      const float entry = k < thread ? 0.0F : (k == thread ? tau : -tau * sums[k]);
      row[k] = entry;
#pragma unroll
      for (int later = k + 1; later < kBandWidth; ++later) {
        sums[later] = fma(entry, v_v[k * kOdd + later], sums[later]);
      }
      if (k % 4 == 3) {
        __syncwarp();  // lest all of V^T V be loaded ahead, beyond the registers
      }
    }
  } else {
    // V^T A' V from V^T A V, by the other warps.
    for (int i = thread - kBandWidth; i < kBlockElements; i += kSmallThreads - kBandWidth) {
      const int row = i / kBandWidth;
      const int column = i % kBandWidth;
      float sum = 0.0F;
      for (int slot = 0; slot < in.pending; ++slot) {
        const float* g = mixed + 2 * slot * kOddBlock;
        const float* h = g + kOddBlock;
        sum = small_product<true>(g, h, row, column, sum);
        sum = small_product<true>(h, g, row, column, sum);
      }
      v_y[row * kOdd + column] -= sum;
    }
  }
  __syncthreads();
  constexpr int kShare = kBlockElements / kSmallThreads;
  const int own_row = thread / kBandWidth;
  const int column = thread % kBandWidth;
  constexpr int kShareRows = kSmallThreads / kBandWidth;
  float* const small = in.small + matrix * 2 * kBlockElements;
#pragma unroll
  for (int share = 0; share < kShare; ++share) {
    const int row = own_row + share * kShareRows;
    v_y_t[row * kOdd + column] = small_product<false>(v_y, t, row, column, 0.0F);
    small[row * kBandWidth + column] = t[row * kOdd + column];
  }
#pragma unroll 1
  for (int block = 0; block < 2 * in.pending; ++block) {
    // Each in its own place; what belongs to W in units of W as it is stored.
    float* const values = mixed + block * kOddBlock;
    const float unit = block % 2 == 0 ? -units[block / 2] : -1.0F;
    float turned[kShare];
#pragma unroll
    for (int share = 0; share < kShare; ++share) {
      turned[share] =
          unit * small_product<false>(values, t, own_row + share * kShareRows, column, 0.0F);
    }
    __syncthreads();
#pragma unroll
    for (int share = 0; share < kShare; ++share) {
      values[(own_row + share * kShareRows) * kOdd + column] = turned[share];
    }
  }
  __syncthreads();
#pragma unroll
  for (int share = 0; share < kShare; ++share) {
    const int row = own_row + share * kShareRows;
    v_v[row * kOdd + column] = -0.5F * small_product<true>(t, v_y_t, row, column, 0.0F);
  }
  __syncthreads();
  // A turn for each warp: of Y, V, and of V_k and W_k.
  if (warp < 2 + 2 * in.pending) {
    const float* const block = warp == 0   ? t
                               : warp == 1 ? v_v
                                           : mixed + ((warp - 2) ^ 1) * kOddBlock;
    float largest = 0.0F;
#pragma unroll 8
    for (int row = 0; row < kBandWidth; ++row) {
      const float magnitude = fabs(block[row * kOdd + lane]);
      largest = magnitude > largest ? magnitude : largest;
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, largest, distance);
      largest = other > largest ? other : largest;
    }
    const float scale = half_scale(largest);
    float* const out = in.turns + (matrix * kMostTurns + warp) * kBlockElements;
#pragma unroll 2
    for (int i = lane; i < kBlockElements / 8; i += kWarp) {
      const int row = i / 4;
      const float* from = block + row * kOdd + i % 4 * 8;
      HalfEight eight;
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        const HalfPair parts = split_pair(from[2 * pair] * scale, from[2 * pair + 1] * scale);
        eight.high[pair] = parts.high;
        eight.low[pair] = parts.low;
      }
      place_eight(out + eight_place(row) * kBandWidth, i % 4, eight);
    }
    if (lane == 0) {
      in.turn_units[matrix * kMostTurns + warp] = 1.0F / scale;
    }
  } else if (warp == kSmallThreads / kWarp - 1) {
    // |W| <= |Y| |T| + |V| |C|, entry by entry.
    // Y = A' v: the norm of a column of V is at most the root of two, the norm of A' at most the
    // order (band_reduction.hpp), and no entry of V is beyond one.
    float bound = 0.0F;
#pragma unroll 8
    for (int k = 0; k < kBandWidth; ++k) {
      bound = fma(1.5F * static_cast<float>(in.order), fabs(t[k * kOdd + lane]), bound);
      bound += fabs(v_v[k * kOdd + lane]);
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, bound, distance);
      bound = other > bound ? other : bound;
    }
    if (lane == 0) {
      units[in.pending] = 1.0F / half_scale(bound);
    }
  }
}

dim3 grid_of(std::int64_t blocks, std::int64_t batch) {
  return {static_cast<unsigned>(blocks), 1, static_cast<unsigned>(batch)};
}

}  // namespace

std::int64_t deferred_overlap_elements(std::int64_t order) {
  return chunk_count(order) * kMostTurns * kBlockElements;
}

void form_deferred_factors(const DeferredStep& step, cudaStream_t stream) {
  const auto pending = static_cast<std::size_t>(step.pending);
  launch(sum_deferred_kernel, grid_of(chunk_count(step.rows), step.batch), dim3(kSumWarps * kWarp),
         (3 * kPairBlock + pending * kBandWidth * kSlotStride) * sizeof(float), stream, step);
  launch(form_turns_kernel, dim3(static_cast<unsigned>(step.batch)), dim3(kSmallThreads),
         (4 + 2 * pending) * kOddBlock * sizeof(float), stream, step, chunk_count(step.rows),
         chunk_count(step.order));
}

}  // namespace vindex::kernels
