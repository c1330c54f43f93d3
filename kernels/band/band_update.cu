// Owns the pass that applies A <- A - V W^T - W V^T of the panel before and forms Y = A V of this
// one, from one read of the lower triangle. A block a_ij below the diagonal gives a_ij v_j to the
// rows' part of Y and a_ij^T v_i to the columns' part: the rows' part stays in registers along a
// strip, the columns' parts of a strip are written and added up later (band_factors.cu), in order.
// float32 on tensor cores has a kernel of its own (band_half_update.cu).
//
// Why not two calls of cuBLAS: they read and write the full square and read it again, three times
// what one pass over the triangle moves, and the pass is bound by memory.
#include "band_half_update.hpp"
#include "band_product.hpp"
#include "band_strips.hpp"
#include "band_update.hpp"
#include "trailing_pass.hpp"

#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kMaximumWarps = 8;
constexpr int kSchedulers = 4;  // of a multiprocessor

/// Distances of rows in shared memory, in elements: multiples of 16 bytes, and such that what a
/// warp reads at once, elements of neighbouring rows or columns, falls into different banks.
constexpr int kPairStride = 2 * kBandWidth + 4;
constexpr int kSingleStride = kBandWidth + 4;

/// Elements of shared memory that depend on the strip, per row.
constexpr int kSharedPerRow = kPairStride + 2 * kSingleStride;
/// And those of the two column tiles in flight.
constexpr int kSharedOfColumns = 2 * kBandWidth * (kPairStride + kSingleStride);

template <typename Real>
struct StripShared {
  __device__ explicit StripShared(int strip_rows)
      : tiles(reinterpret_cast<Real*>(device::dynamic_shared())),
        pairs(tiles + strip_rows * kSingleStride),
        reflectors(pairs + strip_rows * kPairStride),
        column_pairs(reflectors + strip_rows * kSingleStride),
        column_reflectors(column_pairs + 2 * kBandWidth * kPairStride) {}

  Real* tiles;         // a kBand x kBand block per warp
  Real* pairs;         // V W of the strip's rows
  Real* reflectors;    // new V of the strip's rows
  Real* column_pairs;  // the same of the columns, twice
  Real* column_reflectors;
};

/// Starts copies of `count` rows of `width` elements to shared memory, zeros for rows from `limit`
/// on. `rows` is the source's row 0, `first` its first row wanted.
template <typename Real>
__device__ void copy_rows(Real* shared, int stride, const Real* rows, std::int64_t first, int count,
                          std::int64_t limit, int width) {
  constexpr int kPack = static_cast<int>(16 / sizeof(Real));
  const int packs = width / kPack;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / packs;
    const int column = i % packs * kPack;
    const bool inside = first + row < limit;
    device::copy_async_16_or_zero(shared + row * stride + column,
                                  rows + (inside ? first + row : first) * kFactorStride + column,
                                  inside);
  }
}

/// Starts the copy of a warp's block of the matrix, `stride` between its rows.
template <typename Real>
__device__ void copy_block(Real* shared, const Real* block, std::int64_t stride, int lane) {
  constexpr int kPack = static_cast<int>(16 / sizeof(Real));
  constexpr int kPacks = kBandWidth / kPack;
#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
    const int row = i * (kWarp / kPacks) + lane / kPacks;
    const int column = lane % kPacks * kPack;
    device::copy_async_16(shared + row * kSingleStride + column, block + row * stride + column);
  }
}

/// Starts copies of the factors of column tile `tile`; the caller closes their group, one per step
/// whether there is a tile or not, so that a wait for the group before it is not one for this.
template <typename Real>
__device__ void copy_columns(const StripShared<Real>& shared, const Real* pending,
                             const Real* factors, std::int64_t tile, std::int64_t rows) {
  const int slot = static_cast<int>(tile % 2) * kBandWidth;
  if (pending != nullptr) {
    copy_rows(shared.column_pairs + slot * kPairStride, kPairStride, pending, tile * kBand,
              kBandWidth, rows, 2 * kBandWidth);
  }
  copy_rows(shared.column_reflectors + slot * kSingleStride, kSingleStride, factors, tile * kBand,
            kBandWidth, rows, kBandWidth);
}

/// One block per strip and matrix, one warp per kBand rows; column tiles from left to right.
/// Grid: strips of all matrices, in groups whose factors L2 holds (band_strips.hpp). Block: a warp
/// per 32 rows of a strip. Shared: 140 elements per row of the strip and 6,656 for two column
/// tiles, up to 192 KiB. Bound by: arithmetic of the CUDA cores, or of float64's tensor cores; by
/// memory only where those are fast.
template <typename Product>
__global__ void __launch_bounds__(kMaximumWarps* kWarp)
    update_and_multiply_kernel(TrailingPass<typename Product::Real> pass, std::int64_t group) {
  using Real = typename Product::Real;
  constexpr int kStride = kSingleStride;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const auto [matrix, strip] = strip_place(pass, group);
  const std::int64_t strip_first = strip * pass.strip_rows;
  const std::int64_t own_first = strip_first + warp * kBand;
  const std::int64_t strip_end = min(strip_first + pass.strip_rows, pass.rows);
  const StripShared<Real> shared(warps * kBandWidth);

  // Element (i, j) of the trailing matrix at trailing[i * order + j].
  Real* trailing = pass.matrices + matrix * pass.order * pass.order + pass.start * (pass.order + 1);
  const Real* pending = pass.pending == nullptr
                            ? nullptr
                            : pass.pending + (matrix * pass.order + kBand) * kFactorStride;
  const Real* factors = pass.factors + matrix * pass.order * kFactorStride;
  Real* partials = pass.partials +
                   (matrix * strip_count(pass.order, pass.strip_rows) + strip) * pass.order * kBand;

  if (pending != nullptr) {
    copy_rows(shared.pairs, kPairStride, pending, strip_first, warps * kBandWidth, pass.rows,
              2 * kBandWidth);
  }
  copy_rows(shared.reflectors, kStride, factors, strip_first, warps * kBandWidth, pass.rows,
            kBandWidth);
  copy_columns(shared, pending, factors, 0, pass.rows);
  device::copy_async_commit();

  Real* tile = shared.tiles + warp * kBandWidth * kStride;
  const Real* pair = shared.pairs + warp * kBandWidth * kPairStride;
  const AcrossDepth<Real> own_reflectors{shared.reflectors + warp * kBandWidth * kStride, kStride};
  Real product[kBlockValues] = {};
  const std::int64_t tiles = strip_end / kBand;
  for (std::int64_t j = 0; j < tiles; ++j) {
    const int slot = static_cast<int>(j % 2) * kBandWidth;
    device::copy_async_wait<0>();
    __syncthreads();
    const std::int64_t column_first = j * kBand;
    const bool live = own_first < pass.rows && column_first <= own_first;
    Real* values = trailing + own_first * pass.order + column_first;
    if (live) {
      copy_block(tile, values, pass.order, lane);
    }
    device::copy_async_commit();
    if (j + 1 < tiles) {
      copy_columns(shared, pending, factors, j + 1, pass.rows);
    }
    device::copy_async_commit();
    if (live) {
      Real sum[kBlockValues] = {};
      if (pending != nullptr) {
        const Real* column_pair = shared.column_pairs + slot * kPairStride;
        Product::add(sum, AlongDepth<Real>{pair, kPairStride},
                     AlongDepth<Real>{column_pair + kBandWidth, kPairStride}, lane);
        Product::add(sum, AlongDepth<Real>{pair + kBandWidth, kPairStride},
                     AlongDepth<Real>{column_pair, kPairStride}, lane);
      }
      device::copy_async_wait<1>();  // the block; the next columns may take longer
      __syncwarp();
      Real a[kBlockValues];
      load_values<Product>(a, tile, kStride, lane);
      if (pending != nullptr) {
#pragma unroll
        for (int i = 0; i < kBlockValues; ++i) {
          a[i] -= sum[i];
          sum[i] = Real(0);
        }
        store_values<Product>(values, a, pass.order, lane);
        store_values<Product>(tile, a, kStride, lane);
      }
      const AcrossDepth<Real> column_reflectors{shared.column_reflectors + slot * kStride, kStride};
      if constexpr (Product::kTakesValues) {
        Product::add_values(product, a, column_reflectors, lane);
      } else {
        __syncwarp();
        Product::add(product, AlongDepth<Real>{tile, kStride}, column_reflectors, lane);
      }
      if (column_first < own_first) {
        __syncwarp();
        Product::add(sum, AcrossDepth<Real>{tile, kStride}, own_reflectors, lane);
        __syncwarp();
        store_values<Product>(tile, sum, kStride, lane);
      }
    }
    __syncthreads();
    // What the columns give, summed over the warps below the diagonal block of this tile.
    const int first_warp =
        column_first < strip_first ? 0 : static_cast<int>((column_first - strip_first) / kBand) + 1;
    const int last_warp = static_cast<int>((strip_end - strip_first) / kBand);
    if (first_warp < last_warp) {
      constexpr int kCount = sizeof(Real) == sizeof(float) ? 4 : 1;
      constexpr int kPacks = kBandWidth / kCount;
      for (int i = static_cast<int>(threadIdx.x); i < kBandWidth * kPacks;
           i += static_cast<int>(blockDim.x)) {
        const int row = i / kPacks;
        const int column = i % kPacks * kCount;
        Pack<Real, kCount> total{};
#pragma unroll
        for (int other = 0; other < kMaximumWarps; ++other) {
          if (other >= first_warp && other < last_warp) {
            const auto part = *reinterpret_cast<const Pack<Real, kCount>*>(
                shared.tiles + (other * kBandWidth + row) * kStride + column);
#pragma unroll
            for (int k = 0; k < kCount; ++k) {
              total.values[k] += part.values[k];
            }
          }
        }
        *reinterpret_cast<Pack<Real, kCount>*>(partials + (column_first + row) * kBand + column) =
            total;
      }
    }
  }

  if (own_first < pass.rows) {
    store_values<Product>(pass.products + (matrix * pass.order + own_first) * kBand, product, kBand,
                          lane);
  }
}

template <typename Product>
void launch_pass(const TrailingPass<typename Product::Real>& pass, cudaStream_t stream) {
  using Real = typename Product::Real;
  // A strip of all rows needs no more warps than it has blocks of rows.
  const std::int64_t strip_rows = std::min(pass.strip_rows, pass.rows);
  const std::size_t elements =
      static_cast<std::size_t>(strip_rows * kSharedPerRow + kSharedOfColumns);
  launch(update_and_multiply_kernel<Product>, dim3(strip_blocks(pass)),
         dim3(static_cast<unsigned>(strip_rows)), elements * sizeof(Real), stream, pass,
         matrices_per_group(pass));
}

}  // namespace

template <typename Real>
std::int64_t strip_rows_for(std::size_t shared_bytes, BandArithmetic arithmetic) {
  if (sizeof(Real) == sizeof(float) && arithmetic == BandArithmetic::kTensor) {
    return half_strip_rows_for(shared_bytes);
  }
  const auto elements = static_cast<std::int64_t>(shared_bytes / sizeof(Real));
  const std::int64_t rows = (elements - kSharedOfColumns) / kSharedPerRow;
  std::int64_t warps = std::clamp<std::int64_t>(rows / kBand, 0, kMaximumWarps);
  if (sizeof(Real) == sizeof(double) && warps > kSchedulers && warps < 2 * kSchedulers) {
    warps = kSchedulers;  // bound by arithmetic: a fifth warp would take as long as four
  }
  return warps * kBand;
}

template <typename Real>
void update_and_multiply(const TrailingPass<Real>& pass, BandArithmetic arithmetic,
                         cudaStream_t stream) {
  expects(pass.rows > 0 && pass.rows % kBand == 0, "rows of the trailing matrix");
  expects(pass.strip_rows > 0 && pass.strip_rows % kBand == 0 &&
              pass.strip_rows <= kMaximumWarps * kBand,
          "rows of a strip");
  if (arithmetic == BandArithmetic::kTensor) {
    if constexpr (sizeof(Real) == sizeof(float)) {
      update_and_multiply_halves(pass, stream);
    } else {
      launch_pass<TensorProduct<Real>>(pass, stream);
    }
  } else {
    launch_pass<PlainProduct<Real>>(pass, stream);
  }
}

template std::int64_t strip_rows_for<float>(std::size_t, BandArithmetic);
template std::int64_t strip_rows_for<double>(std::size_t, BandArithmetic);
template void update_and_multiply(const TrailingPass<float>&, BandArithmetic, cudaStream_t);
template void update_and_multiply(const TrailingPass<double>&, BandArithmetic, cudaStream_t);

}  // namespace vindex::kernels
