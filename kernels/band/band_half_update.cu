// Owns the pass over the trailing matrix (band_update.hpp) in float32 on the tensor cores, by
// binary16 parts (half_product.hpp).
//
// A warp has kBand rows of a strip and goes over its blocks from left to right. What depends on its
// rows alone - V and W of the panel before, the new V, the rows' part of Y - stays in registers as
// fragments; factors of a block's columns come to shared memory, once for all warps, while the
// column before is at work, and so does the warp's next block of the matrix. One barrier per
// column: what the columns give is added up over the warps during the next.
//
// Order of columns within a block. A lane's values of two neighbouring tiles of a product are two
// and two neighbours; so that it may read and write four of a row at once, the factors' rows are
// laid out in shared memory such that those are columns 4t to 4t + 3. "Place" is the row there.
#include "band_half_update.hpp"
#include "band_strips.hpp"
#include "half_product.hpp"

#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kMaximumWarps = 8;
constexpr int kPack = 4;

/// Distances of rows in shared memory, in elements. Those that ldmatrix reads are an odd number of
/// 16 bytes apart; of the others, the parts of a row that lanes read at once fall into different
/// banks.
constexpr int kColumnStride = 3 * kBandWidth + 4;  // V and W before, new V
constexpr int kBlockStride = kBandWidth + 16;
constexpr int kSplitStride = kBandWidth + 4;
constexpr int kPartStride = kBandWidth + 8;

constexpr int kColumnRoom = kBandWidth * kColumnStride;
constexpr int kBlockRoom = kBandWidth * kBlockStride;
constexpr int kPartRoom = kBandWidth * kPartStride;
/// Elements of shared memory per warp.
constexpr int kWarpRoom = kBlockRoom + 2 * kPartRoom;

/// Column `place` of a block's product is this column of the block.
__device__ constexpr int column_at(int place) {
  return (place & 17) | (place & 6) << 1 | (place & 8) >> 2;
}
__device__ constexpr int place_of(int column) {
  return (column & 17) | (column & 12) >> 1 | (column & 2) << 2;
}

/// The factors of a block's columns on their way to shared memory and, there, to binary16 parts.
/// A warp moves two neighbouring rows of the pair V, W at once, and then four of the new V; the
/// same lane copies and splits.
template <bool kPending, int kWarps>
struct ColumnFactors {
  static constexpr int kPairSteps = kPending ? kBandWidth / 2 : 0;
  static constexpr int kNewSteps = kBandWidth / 4;

  __device__ ColumnFactors(const float* pending, const float* factors, float scale_of_w, int warp,
                           int lane)
      : pending_(pending), factors_(factors), scale_of_w_(scale_of_w), warp_(warp), lane_(lane) {}

  /// Those of the tile whose first column is `first`, to `to`.
  __device__ void copy(float* to, std::int64_t first) const {
    const float* pairs = pending_ + first * kFactorStride;
#pragma unroll
    for (int step = 0; step < kPairSteps; step += kWarps) {
      const int row = 2 * (step + warp_) + lane_ / 16;
      device::copy_async_16(to + pair_place(step), pairs + row * kRowDistance + lane_ % 16 * kPack);
    }
    const float* reflectors = factors_ + first * kFactorStride;
#pragma unroll
    for (int step = 0; step < kNewSteps; step += kWarps) {
      const int row = 4 * (step + warp_) + lane_ / 8;
      device::copy_async_16(to + new_place(step),
                            reflectors + row * kRowDistance + lane_ % 8 * kPack);
    }
  }
  __device__ void split(float* columns) const {
#pragma unroll
    for (int step = 0; step < kPairSteps; step += kWarps) {
      HalfProduct::split_four(columns + pair_place(step), lane_ % 2 != 0,
                              lane_ % 16 < kBandWidth / kPack ? 1.0F : scale_of_w_);
    }
#pragma unroll
    for (int step = 0; step < kNewSteps; step += kWarps) {
      HalfProduct::split_four(columns + new_place(step), lane_ % 2 != 0, 1.0F);
    }
  }

 private:
  static constexpr int kRowDistance = static_cast<int>(kFactorStride);

  // Places of neighbouring rows, and of four, differ by the same whatever the first.
  __device__ int pair_place(int step) const {
    return (place_of(2 * (step + warp_)) + lane_ / 16) * kColumnStride + lane_ % 16 * kPack;
  }
  __device__ int new_place(int step) const {
    return (place_of(4 * (step + warp_)) + place_of(lane_ / 8)) * kColumnStride + 2 * kBandWidth +
           lane_ % 8 * kPack;
  }

  const float* pending_;
  const float* factors_;
  float scale_of_w_;
  int warp_;
  int lane_;
};

/// A lane's values of a block by fours: rows, and first columns.
constexpr int kFours = kBlockValues / kPack;
__device__ constexpr int four_row(int lane, int four) { return four / 2 * 8 + lane / 4; }
__device__ constexpr int four_column(int lane, int four) {
  return four % 2 * 16 + lane % 4 * kPack;
}
/// Where value `k` of a four is among the values that a product has.
__device__ constexpr int value_of(int four, int k) {
  return four / 4 * 16 + four % 2 * 8 + k / 2 * 4 + four / 2 % 2 * 2 + k % 2;
}

/// Starts the copy of a warp's block of the matrix, `stride` between its rows; `from` and `to` are
/// what this lane copies first. Within a block 32 bits hold any distance.
__device__ void copy_block(float* to, const float* from, int stride) {
#pragma unroll
  for (int i = 0; i < kBandWidth / kPack; ++i) {
    device::copy_async_16(to + i * kPack * kBlockStride, from + i * kPack * stride);
  }
}

/// Adds up what the warps' rows give to the columns of a tile, in the order of the warps; `parts`
/// is what the first warp gives.
template <int kWarps>
__device__ void add_parts(float* partials, const float* parts, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < kBandWidth / kPack; i += kWarps) {
    const int place = (i + warp) * kPack + lane / 8;
    const int column = lane % 8 * kPack;
    Pack<float, kPack> total{};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const auto part = *reinterpret_cast<const Pack<float, kPack>*>(parts + other * kWarpRoom +
                                                                     place * kPartStride + column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        total.values[k] = other == 0 ? part.values[k] : total.values[k] + part.values[k];
      }
    }
    device::store_streaming_16(partials + column_at(place) * kBand + column, total.values);
  }
}

/// Column tiles from left to right. kPending: there is a panel before. Grid: a block per strip and
/// matrix. Block: a warp per kBand rows, 4 or 8. Shared: two column tiles and the warps' parts of a
/// product. Bound by: memory, the triangle read and written once, and by registers, which fragments
/// of a strip fill.
template <bool kPending, int kWarps>
__global__ void __launch_bounds__(kWarps* kWarp, kMaximumWarps / kWarps)
    update_and_multiply_halves_kernel(TrailingPass<float> pass, std::int64_t group) {
  using Product = HalfProduct;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const StripPlace place = strip_place(pass, group);
  const std::int64_t strip_first = place.strip * pass.strip_rows;
  const std::int64_t own_first = strip_first + warp * kBand;
  const auto tiles = static_cast<int>(min(strip_first + pass.strip_rows, pass.rows) / kBand);
  // Its diagonal block is the last of a warp; none without rows.
  const int own_tiles = own_first < pass.rows ? static_cast<int>(own_first / kBand) + 1 : 0;

  auto* const columns = reinterpret_cast<float*>(device::dynamic_shared());
  float* const warps_room = columns + 2 * kColumnRoom;
  float* const block = warps_room + warp * kWarpRoom;
  float* const parts = block + kBlockRoom;

  // Element (i, j) of the trailing matrix at trailing[i * order + j].
  float* const own_rows = pass.matrices +
                          (place.matrix * pass.order + pass.start + own_first) * pass.order +
                          pass.start;
  float* partials =
      pass.partials +
      (place.matrix * strip_count(pass.order, pass.strip_rows) + place.strip) * pass.order * kBand;
  const float* const factors = pass.factors + place.matrix * pass.order * kFactorStride;
  const float* const pending =
      kPending ? pass.pending + (place.matrix * pass.order + kBand) * kFactorStride : factors;
  // Of W alone: V ends at 1, and the matrix at its norm, which is at most its order.
  const float scale_of_w = kPending ? half_scale(pass.pending_bounds[place.matrix]) : 1.0F;
  const float unscale = 1.0F / scale_of_w;
  const ColumnFactors<kPending, kWarps> of_columns(pending, factors, scale_of_w, warp, lane);
  const auto order = static_cast<int>(pass.order);
  float* const to_block = block + lane / 8 * kBlockStride + lane % 8 * kPack;
  const float* const block_four = block + four_row(lane, 0) * kBlockStride + four_column(lane, 0);

  of_columns.copy(columns, 0);
  device::copy_async_commit();
  if (own_tiles > 0) {
    copy_block(to_block, own_rows + lane / 8 * order + lane % 8 * kPack, order);
  }
  device::copy_async_commit();

  typename Product::Left own_v[Product::kRowTiles];
  typename Product::Left own_w[Product::kRowTiles];
  typename Product::Right own_reflectors;
  float product[kBlockValues] = {};
  if (own_tiles > 0) {
    if constexpr (kPending) {
      const float* own = pending + own_first * kFactorStride;
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        own_v[i] = Product::left_of_rows(own, kFactorStride, 1.0F, i, lane);
        own_w[i] = Product::left_of_rows(own + kBand, kFactorStride, scale_of_w, i, lane);
      }
    }
    own_reflectors =
        Product::right_of_rows(factors + own_first * kFactorStride, kFactorStride, lane);
  }

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    float* const column = columns + j % 2 * kColumnRoom;
    float* const part = parts + j % 2 * kPartRoom;
    device::copy_async_wait<1>();  // the columns; the block may take longer
    of_columns.split(column);
    __syncthreads();
    if (j + 1 < tiles) {
      of_columns.copy(columns + (j + 1) % 2 * kColumnRoom, (j + 1) * kBand);
    }
    device::copy_async_commit();
    if (j > 0) {
      add_parts<kWarps>(partials, warps_room + kBlockRoom + (j - 1) % 2 * kPartRoom, warp, lane);
      partials += kBand * kBand;
    }
    if (j >= own_tiles) {
      device::copy_async_commit();
#pragma unroll
      for (int i = lane * 4; i < kPartRoom; i += kWarp * 4) {
        *reinterpret_cast<Pack<float, 4>*>(part + i) = {};
      }
      continue;
    }
    float a[kBlockValues];
    if constexpr (kPending) {
      const typename Product::Right w =
          Product::load_right(AlongDepth<float>{column + kBandWidth, kColumnStride}, lane);
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        Product::multiply_row<true>(a, own_v[i], w, i);
      }
      const typename Product::Right v =
          Product::load_right(AlongDepth<float>{column, kColumnStride}, lane);
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        Product::multiply_row<false>(a, own_w[i], v, i);
      }
    }
    float* const values = own_rows + j * kBand;
    device::copy_async_wait<1>();  // the block; the next columns may take longer
    __syncwarp();
#pragma unroll
    for (int four = 0; four < kFours; ++four) {
      const auto old = *reinterpret_cast<const Pack<float, kPack>*>(
          block_four + four / 2 * 8 * kBlockStride + four % 2 * 16);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        float& value = a[value_of(four, k)];
        value = kPending ? fma(-unscale, value, old.values[k]) : old.values[k];
      }
    }
    __syncwarp();
    if (j + 1 < own_tiles) {
      copy_block(to_block, values + kBand + lane / 8 * order + lane % 8 * kPack, order);
    }
    device::copy_async_commit();
    if constexpr (kPending) {
#pragma unroll
      for (int four = 0; four < kFours; ++four) {
        const float together[kPack] = {a[value_of(four, 0)], a[value_of(four, 1)],
                                       a[value_of(four, 2)], a[value_of(four, 3)]};
        device::store_streaming_16(values + four_row(lane, four) * order + four_column(lane, four),
                                   together);
      }
    }
    const typename Product::Block split = Product::block(a);
    Product::store_block(part, split, kSplitStride, lane);
    {
      const typename Product::Right reflectors =
          Product::load_right(AcrossDepth<float>{column + 2 * kBandWidth, kColumnStride}, lane);
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        Product::multiply_row<false>(product, Product::left_of(split, i), reflectors, i);
      }
    }
    // The diagonal block gives nothing to its columns that it has not given to its rows.
    __syncwarp();
    if (j + 1 < own_tiles) {
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        const typename Product::Left left =
            Product::load_left(AcrossDepth<float>{part, kSplitStride}, i, lane);
        Product::multiply_row<true>(a, left, own_reflectors, i);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBlockValues; ++i) {
        a[i] = 0.0F;
      }
    }
    __syncwarp();
    store_values<typename Product::Layout>(part, a, kPartStride, lane);
  }

  if (own_tiles > 0) {
    store_values<typename Product::Layout>(
        pass.products + (place.matrix * pass.order + own_first) * kBand, product, kBand, lane);
  }
}

template <int kWarps>
void launch_pass(const TrailingPass<float>& pass, cudaStream_t stream) {
  constexpr std::size_t kElements = 2 * kColumnRoom + kWarps * kWarpRoom;
  launch(pass.pending != nullptr ? update_and_multiply_halves_kernel<true, kWarps>
                                 : update_and_multiply_halves_kernel<false, kWarps>,
         dim3(strip_blocks(pass)), dim3(kWarps * kWarp), kElements * sizeof(float), stream, pass,
         matrices_per_group(pass));
}

}  // namespace

std::int64_t half_strip_rows_for(std::size_t shared_bytes) {
  const auto elements = static_cast<std::int64_t>(shared_bytes / sizeof(float));
  const std::int64_t warps = (elements - 2 * kColumnRoom) / kWarpRoom;
  return (warps >= 8 ? 8 : (warps >= 4 ? 4 : (warps >= 2 ? 2 : 0))) * kBand;
}

void update_and_multiply_halves(const TrailingPass<float>& pass, cudaStream_t stream) {
  switch (pass.strip_rows / kBand) {
    case 8:
      return launch_pass<8>(pass, stream);
    case 4:
      return launch_pass<4>(pass, stream);
    default:
      expects(pass.strip_rows == 2 * kBand, "rows of a strip");
      return launch_pass<2>(pass, stream);
  }
}

}  // namespace vindex::kernels
