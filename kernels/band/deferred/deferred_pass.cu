// Owns the product of a trailing matrix with the reflectors of a panel where nothing is updated
// (deferred_band.hpp): each block of the lower triangle comes to shared memory as binary16 parts
// and is read from there along its rows, for the rows' part, and across them, for the columns'.
//
// As in band_half_update.cu a warp has kBand rows of a strip and goes over its blocks from left to
// right, and the columns' parts are added up over the warps one column later. But no factors of
// rows fill registers, nothing is split and nothing waits for what it has just written: several
// blocks are under way for every warp.
#include "deferred_band.hpp"

#include "kernels/band/band_strips.hpp"
#include "kernels/band/half_pairs.hpp"
#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kPack = 4;
constexpr int kPartRow = kBandWidth + 8;
constexpr int kPartRoom = kBandWidth * kPartRow;

/// Elements of shared memory: reflectors of the columns under way, and per warp the blocks under
/// way and two of the columns' parts.
constexpr int shared_elements(int warps, int depth) {
  return depth * kPairBlock + warps * (depth * kPairBlock + 2 * kPartRoom);
}

/// A lane's share of a block on its way to shared memory: every fourth row. `stride` between rows
/// of the source; within a block 32 bits hold any distance.
__device__ void copy_block(float* to, const float* from, int stride) {
#pragma unroll
  for (int i = 0; i < kBandWidth / kPack; ++i) {
    device::copy_async_16(to + i * kPack * kPairRow, from + i * kPack * stride);
  }
}

/// Adds up what the warps' rows give to the columns of a tile, in the order of the warps; `parts`
/// is what the first warp gives, `room` the distance to the next.
template <int kWarps>
__device__ void add_parts(float* partials, const float* parts, int room, int warp, int lane) {
#pragma unroll
  for (int i = 0; i < kBandWidth / kPack; i += kWarps) {
    const int row = (i + warp) * kPack + lane / 8;
    const int column = lane % 8 * kPack;
    Pack<float, kPack> total{};
#pragma unroll
    for (int other = 0; other < kWarps; ++other) {
      const auto part = *reinterpret_cast<const Pack<float, kPack>*>(parts + other * room +
                                                                     row * kPartRow + column);
#pragma unroll
      for (int k = 0; k < kPack; ++k) {
        total.values[k] = other == 0 ? part.values[k] : total.values[k] + part.values[k];
      }
    }
    device::store_streaming_16(partials + row * kBand + column, total.values);
  }
}

/// Grid: strips x batch, in the order of band_strips.hpp. Block: kWarps warps, one per kBand rows.
/// Dynamic shared memory: shared_elements(kWarps, kDepth) floats. Bound by the bytes of the lower
/// triangle, 4 an element, with HMMA (96 a block of kBand x kBand) at about half of that.
/// kFirst: the matrix is float32, and has its scale already where `exponents` is null; kDepth:
/// blocks under way for a warp, the one at work included.
template <bool kFirst, int kWarps, int kDepth>
__global__ void __launch_bounds__(kWarps* kWarp, 1)
    multiply_deferred_kernel(TrailingPass<float> pass, const std::int32_t* exponents,
                             std::int64_t group) {
  using Product = HalfProduct;
  constexpr int kRoom = kDepth * kPairBlock + 2 * kPartRoom;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const StripPlace place = strip_place(pass, group);
  const std::int64_t strip_first = place.strip * pass.strip_rows;
  const std::int64_t own_first = strip_first + warp * kBand;
  const auto tiles = static_cast<int>(min(strip_first + pass.strip_rows, pass.rows) / kBand);
  // Its diagonal block is the last of a warp; none without rows.
  const int own_tiles = own_first < pass.rows ? static_cast<int>(own_first / kBand) + 1 : 0;

  auto* const columns = reinterpret_cast<float*>(device::dynamic_shared());
  float* const rooms = columns + kDepth * kPairBlock;
  float* const blocks = rooms + warp * kRoom;
  float* const parts = blocks + kDepth * kPairBlock;

  // What this lane copies first of a block, and its columns' reflectors.
  const int four_row = lane / 8;
  const int four_column = lane % 8 * kPack;
  const int four = four_row * kPairRow + four_column;
  const auto order = static_cast<int>(pass.order);
  float* const own_rows = pass.matrices +
                          (place.matrix * pass.order + pass.start + own_first) * pass.order +
                          pass.start + four_row * order + four_column;
  float* partials =
      pass.partials +
      (place.matrix * strip_count(pass.order, pass.strip_rows) + place.strip) * pass.order * kBand;
  const float* const factors = pass.factors + place.matrix * pass.order * kFactorStride;
  const float scale = kFirst && exponents != nullptr ? ldexp(1.0F, -exponents[place.matrix]) : 1.0F;

  // Reflectors of tile j's columns, a part for each warp, and the warp's block.
  const auto fetch = [&](int j) {
    if (j < tiles) {
#pragma unroll
      for (int i = 0; i < kBandWidth / kPack; i += kWarps) {
        const int row = (i + warp) * kPack;
        device::copy_async_16(columns + j % kDepth * kPairBlock + row * kPairRow + four,
                              factors + (j * kBand + row + four_row) * kFactorStride + four_column);
      }
    }
    if (j < own_tiles) {
      copy_block(blocks + j % kDepth * kPairBlock + four, own_rows + j * kBand, order);
    }
    device::copy_async_commit();
  };
  for (int j = 0; j < kDepth - 1; ++j) {
    fetch(j);
  }

  typename Product::Right own_reflectors;
  float product[kBlockValues] = {};
  if (own_tiles > 0) {
    own_reflectors =
        Product::right_of_rows(factors + own_first * kFactorStride, kFactorStride, lane);
  }

#pragma unroll 1
  for (int j = 0; j < tiles; ++j) {
    float* const column = columns + j % kDepth * kPairBlock;
    float* const block = blocks + j % kDepth * kPairBlock;
    float* const part = parts + j % 2 * kPartRoom;
    device::copy_async_wait<kDepth - 2>();
#pragma unroll
    for (int i = 0; i < kBandWidth / kPack; i += kWarps) {
      Product::split_four(column + (i + warp) * kPack * kPairRow + four, lane % 2 != 0, 1.0F);
    }
    __syncthreads();  // also the end of what the tile before read
    fetch(j + kDepth - 1);
    if (j > 0) {
      add_parts<kWarps>(partials, rooms + kDepth * kPairBlock + (j - 1) % 2 * kPartRoom, kRoom,
                        warp, lane);
      partials += kBand * kBand;
    }
    if (j >= own_tiles) {
#pragma unroll
      for (int i = lane * kPack; i < kPartRoom; i += kWarp * kPack) {
        *reinterpret_cast<Pack<float, kPack>*>(part + i) = {};
      }
      continue;
    }
    if constexpr (kFirst) {
#pragma unroll
      for (int i = 0; i < kBandWidth / kPack; ++i) {
        Product::split_four(block + four + i * kPack * kPairRow, lane % 2 != 0, scale);
      }
      __syncwarp();
    }
    {
      const typename Product::Right reflectors =
          Product::load_right(AcrossDepth<float>{column, kPairRow}, lane);
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        Product::multiply_row<false>(
            product, Product::load_left(AlongDepth<float>{block, kPairRow}, i, lane), reflectors,
            i);
      }
    }
    // The diagonal block gives nothing to its columns that it has not given to its rows.
    float a[kBlockValues] = {};
    if (j + 1 < own_tiles) {
#pragma unroll
      for (int i = 0; i < Product::kRowTiles; ++i) {
        Product::multiply_row<true>(
            a, Product::load_left(AcrossDepth<float>{block, kPairRow}, i, lane), own_reflectors, i);
      }
    }
    store_values<typename Product::Layout>(part, a, kPartRow, lane);
    __syncwarp();  // the block's place is copied to next
  }

  if (own_tiles > 0) {
    store_values<typename Product::Layout>(
        pass.products + (place.matrix * pass.order + own_first) * kBand, product, kBand, lane);
  }
}

template <bool kFirst, int kWarps, int kDepth>
void launch_pass(const TrailingPass<float>& pass, const std::int32_t* exponents,
                 cudaStream_t stream) {
  launch(multiply_deferred_kernel<kFirst, kWarps, kDepth>, dim3(strip_blocks(pass)),
         dim3(kWarps * kWarp), shared_elements(kWarps, kDepth) * sizeof(float), stream, pass,
         exponents, matrices_per_group(pass));
}

}  // namespace

std::int64_t deferred_strip_rows(std::size_t shared_bytes) {
  for (const int warps : {8, 4, 2}) {
    if (shared_elements(warps, 2) * sizeof(float) <= shared_bytes) {
      return warps * kBand;
    }
  }
  return 0;
}

void multiply_deferred(const DeferredStep& step, std::size_t shared_bytes, cudaStream_t stream) {
  const TrailingPass<float> pass{step.matrices, nullptr,         nullptr,    step.reflectors,
                                 step.products, step.partials,   step.order, step.start,
                                 step.rows,     step.strip_rows, step.batch};
  const auto warps = static_cast<int>(step.strip_rows / kBand);
  const bool is_deep = shared_elements(warps, 3) * sizeof(float) <= shared_bytes;
  const auto run = [&](auto kernel_of) {
    switch (warps) {
      case 8:
        return is_deep ? kernel_of.template operator()<8, 3>()
                       : kernel_of.template operator()<8, 2>();
      case 4:
        return is_deep ? kernel_of.template operator()<4, 3>()
                       : kernel_of.template operator()<4, 2>();
      default:
        expects(warps == 2, "rows of a strip");
        return is_deep ? kernel_of.template operator()<2, 3>()
                       : kernel_of.template operator()<2, 2>();
    }
  };
  const std::int32_t* const exponents = step.scaled ? nullptr : step.exponents;
  if (step.is_first()) {
    run([&]<int kWarps, int kDepth>() {
      launch_pass<true, kWarps, kDepth>(pass, exponents, stream);
    });
  } else {
    run([&]<int kWarps, int kDepth>() {
      launch_pass<false, kWarps, kDepth>(pass, exponents, stream);
    });
  }
}

}  // namespace vindex::kernels
