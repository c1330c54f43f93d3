// Owns the small products between panels. With V and Y = A V of a panel:
//
//   T_kk = tau_k,  T_ik = -tau_k sum over i <= j < k of T_ij (V^T V)_jk       (LAPACK larft)
//   C = -T^T (V^T Y) T / 2,   W = Y T + V C,   Q^T A Q = A - V W^T - W V^T
//
// (derived in host/cpu/band/simd_band_reduction.cpp, where A V T stands for Y T). V^T V and V^T Y
// are summed by chunks of rows, whose results are added in order: the same bits for every batch.
//
// The bound of W is for half_product.hpp: binary16 parts end at 65504, and to scale W by its
// largest entry one would have to wait for it.
#include "band_factors.hpp"
#include "band_product.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>
namespace vindex::kernels {
namespace {

constexpr int kBlockElements = kBandWidth * kBandWidth;
constexpr int kStride = kBandWidth + 4;  // of blocks in shared memory; see band_update.cu
constexpr int kBlockRoom = kBandWidth * kStride;

/// Warps of a block, each with kBand rows: float64 takes half to fit into 99 KiB.
template <typename Real>
constexpr int kChunkWarps = sizeof(Real) == sizeof(float) ? 4 : 2;
template <typename Real>
constexpr std::int64_t kChunkRows = kChunkWarps<Real>* kBand;

template <typename Real>
std::int64_t chunk_count(std::int64_t rows) {
  return ceil_divide(rows, kChunkRows<Real>);
}

/// Reads a kBand x kBand block, `stride` between its rows, by one warp: a row at a time.
template <typename Real>
__device__ void load_block(Real* shared, const Real* values, std::int64_t stride, int lane) {
#pragma unroll
  for (int row = 0; row < kBandWidth; ++row) {
    shared[row * kStride + lane] = values[row * stride + lane];
  }
}

template <typename Real>
__device__ AlongDepth<Real> along(const Real* shared) {
  return {shared, kStride};
}
template <typename Real>
__device__ AcrossDepth<Real> across(const Real* shared) {
  return {shared, kStride};
}

/// Completes Y and adds up V^T V and V^T Y over a chunk of rows.
/// Grid: chunks of 128 rows (float64: 64) x 1 x matrices. Block: a warp per 32 rows. Shared: two 32
/// x 36 blocks a warp, 36 KiB. Bound by: memory (V, Y and the strips' parts of Y, each read once).
template <typename Product>
__global__ void __launch_bounds__(kChunkWarps<typename Product::Real>* kWarp)
    sum_products_kernel(Factors<typename Product::Real> in) {
  using Real = typename Product::Real;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t chunk_first = blockIdx.x * kChunkRows<Real>;
  const std::int64_t first = chunk_first + warp * kBand;
  auto* blocks = reinterpret_cast<Real*>(device::dynamic_shared());
  Real* v = blocks + 2 * warp * kBlockRoom;
  Real* y = v + kBlockRoom;

  if (first < in.rows) {
    load_block(v, in.factors + (matrix * in.order + first) * kFactorStride, kFactorStride, lane);
    Real* products = in.products + (matrix * in.order + first) * kBand;
    const std::int64_t strips = strip_count(in.rows, in.strip_rows);
    Real totals[kBandWidth];  // of this lane's column: loads that do not wait for each other
#pragma unroll
    for (int row = 0; row < kBandWidth; ++row) {
      totals[row] = products[row * kBand + lane];
    }
    if (in.partials != nullptr) {
      const Real* partials =
          in.partials + (matrix * strip_count(in.order, in.strip_rows) * in.order + first) * kBand;
      for (std::int64_t strip = first / in.strip_rows; strip < strips; ++strip) {
        // A strip that ends with this block of rows has nothing below it.
        if (first + kBand < min((strip + 1) * in.strip_rows, in.rows)) {
          const Real* part = partials + strip * in.order * kBand + lane;
#pragma unroll
          for (int row = 0; row < kBandWidth; ++row) {
            totals[row] += part[row * kBand];
          }
        }
      }
    }
#pragma unroll
    for (int row = 0; row < kBandWidth; ++row) {
      products[row * kBand + lane] = totals[row];
      y[row * kStride + lane] = totals[row];
    }
    __syncwarp();
    Real overlap[kBlockValues] = {};
    Product::add(overlap, across(v), across(v), lane);
    Real quadratic[kBlockValues] = {};
    Product::add(quadratic, across(v), across(y), lane);
    __syncwarp();
    store_values<Product>(v, overlap, kStride, lane);
    store_values<Product>(y, quadratic, kStride, lane);
  }
  __syncthreads();
  const int warps = static_cast<int>(min(in.rows - chunk_first, kChunkRows<Real>) / kBand);
  const std::int64_t chunks = (in.order + kChunkRows<Real> - 1) / kChunkRows<Real>;
  Real* out = in.overlaps + (matrix * chunks + blockIdx.x) * 2 * kBlockElements;
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kBlockElements;
       i += static_cast<int>(blockDim.x)) {
    const int which = i / kBlockElements;
    const int place = i % kBlockElements / kBandWidth * kStride + i % kBandWidth;
    Real total = Real(0);
    for (int other = 0; other < warps; ++other) {
      total += blocks[(2 * other + which) * kBlockRoom + place];
    }
    out[i] = total;
  }
}

constexpr int kSmallThreads = 256;

/// T and C of one matrix, and the bound of W = Y T + V C. Source of T: LAPACK larft; row i needs
/// only itself and V^T V.
/// Grid: a block per matrix. Block: 256. Shared: four 32 x 33 blocks, 16.5 KiB (float64: 33). Bound
/// by: latency, 32 dependent steps of T by one warp.
template <typename Real>
__global__ void __launch_bounds__(kSmallThreads)
    form_small_factors_kernel(const Real* overlaps, const Real* taus, Real* small, Real* bounds,
                              std::int64_t order, std::int64_t chunks, std::int64_t chunk_stride) {
  constexpr int kOdd = kBandWidth + 1;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t matrix = blockIdx.x;
  auto* v_v = reinterpret_cast<Real*>(device::dynamic_shared());
  Real* v_y = v_v + kBandWidth * kOdd;
  Real* t = v_y + kBandWidth * kOdd;
  Real* v_y_t = t + kBandWidth * kOdd;

  constexpr int kShare = 2 * kBlockElements / kSmallThreads;
  Real totals[kShare] = {};
#pragma unroll 4
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const Real* sums = overlaps + (matrix * chunk_stride + chunk) * 2 * kBlockElements + thread;
#pragma unroll
    for (int i = 0; i < kShare; ++i) {
      totals[i] += sums[i * kSmallThreads];
    }
  }
#pragma unroll
  for (int i = 0; i < kShare; ++i) {
    const int element = thread + i * kSmallThreads;
    Real* out = element < kBlockElements ? v_v : v_y;
    out[element % kBlockElements / kBandWidth * kOdd + element % kBandWidth] = totals[i];
  }
  __syncthreads();
  if (thread < kBandWidth) {
    // Row `thread` of T from left to right; every entry is added to the sums of those behind it as
    // soon as it is known, so that they wait for one multiplication and not for a sum.
    Real* row = t + thread * kOdd;
    Real sums[kBandWidth] = {};
#pragma unroll
    for (int k = 0; k < kBandWidth; ++k) {
      const Real tau = taus[matrix * kBand + k];
      const Real entry = k < thread ? Real(0) : (k == thread ? tau : -tau * sums[k]);
      row[k] = entry;
#pragma unroll
      for (int later = k + 1; later < kBandWidth; ++later) {
        sums[later] = fma(entry, v_v[k * kOdd + later], sums[later]);
      }
    }
  }
  __syncthreads();
  Real* out = small + matrix * 2 * kBlockElements;
  for (int i = thread; i < kBlockElements; i += kSmallThreads) {
    const int row = i / kBandWidth;
    const int column = i % kBandWidth;
    Real sum = Real(0);
#pragma unroll
    for (int k = 0; k < kBandWidth; ++k) {  // zeros behind `column`
      sum = fma(v_y[row * kOdd + k], t[k * kOdd + column], sum);
    }
    v_y_t[row * kOdd + column] = sum;
    out[i] = t[row * kOdd + column];
  }
  __syncthreads();
  for (int i = thread; i < kBlockElements; i += kSmallThreads) {
    const int row = i / kBandWidth;
    const int column = i % kBandWidth;
    Real sum = Real(0);
#pragma unroll
    for (int k = 0; k < kBandWidth; ++k) {  // zeros behind `row`
      sum = fma(t[k * kOdd + row], v_y_t[k * kOdd + column], sum);
    }
    out[kBlockElements + i] = Real(-0.5) * sum;
    v_v[row * kOdd + column] = Real(-0.5) * sum;
  }
  __syncthreads();
  if (thread < kBandWidth) {
    // |W| <= |Y| |T| + |V| |C|, entry by entry.
    // Y = A v: the norm of a column of V is at most the root of two, the norm of A at most the
    // order (band_reduction.hpp), and no entry of V is beyond one.
    Real bound = Real(0);
#pragma unroll
    for (int k = 0; k < kBandWidth; ++k) {
      bound = fma(Real(1.5) * static_cast<Real>(order), fabs(t[k * kOdd + thread]), bound);
      bound += fabs(v_v[k * kOdd + thread]);
    }
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const Real other = __shfl_xor_sync(0xffffffffU, bound, distance);
      bound = other > bound ? other : bound;
    }
    if (thread == 0) {
      bounds[matrix] = bound;
    }
  }
}

/// W of a chunk of rows, and those rows of the block column at `start`.
/// Grid: chunks of 128 rows (float64: 64) x 1 x matrices. Block: a warp per 32 rows. Shared: four
/// 32 x 36 blocks and two a warp, 54 KiB (float64: 72). Bound by: memory (V, Y, a block column, W
/// written).
template <typename Product>
__global__ void __launch_bounds__(kChunkWarps<typename Product::Real>* kWarp)
    advance_kernel(Factors<typename Product::Real> in) {
  using Real = typename Product::Real;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = device::warp_of_block();
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t first = blockIdx.x * kChunkRows<Real> + warp * kBand;
  const bool live = first < in.rows;
  auto* t = reinterpret_cast<Real*>(device::dynamic_shared());
  Real* c = t + kBlockRoom;
  Real* first_v = c + kBlockRoom;
  Real* first_w = first_v + kBlockRoom;  // Y of those rows at first
  Real* v = first_w + kBlockRoom + 2 * warp * kBlockRoom;
  Real* w = v + kBlockRoom;

  if (in.factors != nullptr) {
    const Real* small = in.small + matrix * 2 * kBlockElements;
    Real* factors = in.factors + matrix * in.order * kFactorStride;
    const Real* products = in.products + matrix * in.order * kBand;
    if (warp == 0) {
      load_block(t, small, kBand, lane);
      load_block(first_v, factors, kFactorStride, lane);
    } else if (warp == 1) {
      load_block(c, small + kBlockElements, kBand, lane);
      load_block(first_w, products, kBand, lane);
    }
    if (live) {
      load_block(v, factors + first * kFactorStride, kFactorStride, lane);
      load_block(w, products + first * kBand, kBand, lane);
    }
    __syncthreads();
    if (warp == 0) {
      Real sum[kBlockValues] = {};
      Product::add(sum, along(first_w), across(t), lane);
      Product::add(sum, along(first_v), across(c), lane);
      __syncwarp();
      store_values<Product>(first_w, sum, kStride, lane);
    }
    if (live) {
      Real sum[kBlockValues] = {};
      Product::add(sum, along(w), across(t), lane);
      Product::add(sum, along(v), across(c), lane);
      __syncwarp();
      store_values<Product>(w, sum, kStride, lane);
      __syncwarp();
#pragma unroll
      for (int row = 0; row < kBandWidth; ++row) {
        Real* out = factors + (first + row) * kFactorStride;
        out[kBand + lane] = w[row * kStride + lane];
      }
    }
    __syncthreads();
  }
  if (!live) {
    return;
  }
  const Real* values = in.matrices + (matrix * in.order + in.start + first) * in.order + in.start;
  Real a[kBlockValues];
  load_values<Product>(a, values, in.order, lane);
  if (in.factors != nullptr) {
    Real sum[kBlockValues] = {};
    Product::add(sum, along(v), along(first_w), lane);
    Product::add(sum, along(w), along(first_v), lane);
#pragma unroll
    for (int i = 0; i < kBlockValues; ++i) {
      a[i] -= sum[i];
    }
    __syncwarp();
  }
  store_values<Product>(v, a, kStride, lane);
  __syncwarp();
  if (first == 0) {
    Real* band = in.band + matrix * band_elements(in.order);
    for (int column = 0; column <= lane; ++column) {
      band[band_index(in.start + lane, in.start + column)] = v[lane * kStride + column];
    }
    return;
  }
  Real* columns = in.columns + matrix * in.order * kBand + first - kBand;
#pragma unroll
  for (int column = 0; column < kBandWidth; ++column) {
    columns[column * in.order + lane] = v[lane * kStride + column];
  }
}

template <typename Real>
dim3 chunk_grid(std::int64_t rows, std::int64_t batch) {
  return {static_cast<unsigned>(chunk_count<Real>(rows)), 1, static_cast<unsigned>(batch)};
}

template <typename Product>
void sum_products(const Factors<typename Product::Real>& in, cudaStream_t stream) {
  using Real = typename Product::Real;
  launch(sum_products_kernel<Product>, chunk_grid<Real>(in.rows, in.batch),
         dim3(kChunkWarps<Real> * kWarp), 2 * kChunkWarps<Real> * kBlockRoom * sizeof(Real), stream,
         in);
}

template <typename Product>
void advance_rows(const Factors<typename Product::Real>& in, cudaStream_t stream) {
  using Real = typename Product::Real;
  launch(advance_kernel<Product>, chunk_grid<Real>(in.rows, in.batch),
         dim3(kChunkWarps<Real> * kWarp), (4 + 2 * kChunkWarps<Real>)*kBlockRoom * sizeof(Real),
         stream, in);
}

}  // namespace

template <typename Real>
std::int64_t overlap_elements(std::int64_t order) {
  return chunk_count<Real>(order) * 2 * kBlockElements;
}

template <typename Real>
void form_small_factors(const Factors<Real>& in, BandArithmetic arithmetic, cudaStream_t stream) {
  if (arithmetic == BandArithmetic::kTensor) {
    sum_products<TensorProduct<Real>>(in, stream);
  } else {
    sum_products<PlainProduct<Real>>(in, stream);
  }
  launch(form_small_factors_kernel<Real>, dim3(static_cast<unsigned>(in.batch)),
         dim3(kSmallThreads), 4 * kBandWidth * (kBandWidth + 1) * sizeof(Real), stream, in.overlaps,
         in.taus, in.small, in.bounds, in.order, chunk_count<Real>(in.rows),
         chunk_count<Real>(in.order));
}

template <typename Real>
void advance(const Factors<Real>& in, BandArithmetic arithmetic, cudaStream_t stream) {
  if (arithmetic == BandArithmetic::kTensor) {
    advance_rows<TensorProduct<Real>>(in, stream);
  } else {
    advance_rows<PlainProduct<Real>>(in, stream);
  }
}

template std::int64_t overlap_elements<float>(std::int64_t);
template std::int64_t overlap_elements<double>(std::int64_t);
template void form_small_factors(const Factors<float>&, BandArithmetic, cudaStream_t);
template void form_small_factors(const Factors<double>&, BandArithmetic, cudaStream_t);
template void advance(const Factors<float>&, BandArithmetic, cudaStream_t);
template void advance(const Factors<double>&, BandArithmetic, cudaStream_t);

}  // namespace vindex::kernels
