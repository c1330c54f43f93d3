// Owns Cholesky factors of shifted bands and solves with them, blocks of 32:
//
//   L_k L_k^T = A_k + s I - E_(k-1) E_(k-1)^T,    E_k = B_k L_k^-T
//
// as host/cpu/tail/band_inverse.cpp, but what is kept is L_k^-1: a solve is then two products with
// a 32 x 32 block per step, every lane a row, where substitution would be a chain of 32 divisions.
// The inverse of a well-scaled 32 x 32 triangle is accurate enough for inverse iteration, which
// only needs a good solve: residuals judge the result. Source: Golub and Van Loan, Matrix
// Computations, 4.5.
#include "band_inverse.hpp"

#include "kernels/band/inverse_root.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarpLanes = 32;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kSide = static_cast<int>(kBand);
constexpr int kOdd = kSide + 1;  ///< between columns in shared memory: rows spread over banks
constexpr int kTile = kSide * kOdd;
constexpr int kSquare = kSide * kSide;
constexpr int kAttempts = 4;
/// Far below the rounding of entries of about 1, far above the smallest float.
constexpr double kMinPivot = 0x1p-90;
static_assert(kSide == kWarpLanes && kWarps == static_cast<int>(kSolveColumns));

/// Element (row, column) of the diagonal block at `start`.
template <typename Real>
__device__ double diagonal_element(const Real* band, std::int64_t n, std::int64_t order,
                                   std::int64_t start, int row, int column) {
  if (row == column && start + row >= n) {
    return 2.0 * static_cast<double>(order);  // beyond every eigenvalue of entries of at most 1
  }
  const int below = row > column ? row : column;
  const int left = row > column ? column : row;
  return static_cast<double>(band[band_index(start + below, start + left)]);
}

/// Lane = row, warps share the columns. Tiles are column-major.
/// Grid: a block per slot. Block: 256, two of which share a multiprocessor. Shared: four 32 x 33
/// float64 tiles, 33 KiB. Bound by: latency, every pivot waits for the one before.
template <typename Real>
__global__ void __launch_bounds__(kThreads, 2)
    factor_kernel(BandSystem<Real> in, const double* shifts, double* factors, int* info) {
  auto* a = reinterpret_cast<double*>(device::dynamic_shared());  // what is left; L below
  double* inverse = a + kTile;                                    // of L
  double* below = inverse + kTile;                                // E = B L^-T
  double* next = below + kTile;                                   // B of the block below
  const int row = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const std::int64_t slot = blockIdx.x;
  const Real* band = in.bands + in.which[slot] * band_elements(in.order);
  double* out = factors + slot * band_factor_elements(in.order);
  const std::int64_t blocks = in.order / kBand;
  double shift = shifts[slot];
  bool failed = true;  // the same in every thread
  for (int attempt = 0; attempt < kAttempts && failed; ++attempt, shift *= 10.0) {
    failed = false;
    for (std::int64_t block = 0; block < blocks && !failed; ++block) {
      const std::int64_t start = block * kBand;
      const bool has_next = block + 1 < blocks;
      for (int column = warp; column < kSide; column += kWarps) {
        double value = diagonal_element(band, in.n, in.order, start, row, column);
        value += row == column ? shift : 0.0;
        if (block > 0) {
          for (int k = 0; k < kSide; ++k) {
            value = fma(-below[k * kOdd + row], below[k * kOdd + column], value);
          }
        }
        a[column * kOdd + row] = value;
        inverse[column * kOdd + row] = row == column ? 1.0 : 0.0;
        next[column * kOdd + row] =
            has_next && row <= column
                ? static_cast<double>(band[band_index(start + kBand + row, start + column)])
                : 0.0;
      }
      __syncthreads();
      // Elimination of [A, I]: what it makes of I is the inverse of L.
      for (int k = 0; k < kSide; ++k) {
        double pivot = a[k * kOdd + k];
        if (!(pivot > kMinPivot)) {  // also not-a-number
          failed = true;
          pivot = 1.0;
        }
        const double scale = device::inverse_root(pivot);
        __syncthreads();
        if (warp == 0 && row > k) {
          a[k * kOdd + row] *= scale;
        } else if (warp == 1 && row <= k) {
          inverse[row * kOdd + k] *= scale;
        }
        __syncthreads();
        for (int column = warp; column < kSide; column += kWarps) {
          if (column > k) {
            if (row >= column) {
              a[column * kOdd + row] =
                  fma(-a[k * kOdd + row], a[k * kOdd + column], a[column * kOdd + row]);
            }
          } else if (row > k) {
            inverse[column * kOdd + row] =
                fma(-a[k * kOdd + row], inverse[column * kOdd + k], inverse[column * kOdd + row]);
          }
        }
        __syncthreads();
      }
      double* own = out + block * 2 * kSquare;
      for (int column = warp; column < kSide; column += kWarps) {
        double sum = 0.0;
        for (int k = 0; k <= column; ++k) {
          sum = fma(next[k * kOdd + row], inverse[k * kOdd + column], sum);
        }
        below[column * kOdd + row] = sum;
        own[column * kSide + row] = inverse[column * kOdd + row];
        own[kSquare + column * kSide + row] = sum;
      }
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) {
    info[slot] = failed ? 1 : 0;
  }
}

/// A tile of a factor into shared memory, by all threads.
__device__ void load_tile(double* tile, const double* from, int row, int warp) {
#pragma unroll
  for (int column = warp; column < kSide; column += kWarps) {
    tile[column * kOdd + row] = from[column * kSide + row];
  }
}

/// Row `row` of the tile times the column that the warp holds in `x`; or of its transpose.
template <bool kTransposed>
__device__ double times(const double* tile, const double* x, int row) {
  double even = 0.0;
  double odd = 0.0;
#pragma unroll 8
  for (int k = 0; k < kSide; k += 2) {
    even = fma(kTransposed ? tile[row * kOdd + k] : tile[k * kOdd + row], x[k], even);
    odd = fma(kTransposed ? tile[row * kOdd + k + 1] : tile[(k + 1) * kOdd + row], x[k + 1], odd);
  }
  return even + odd;
}

/// One block per slot and kSolveColumns columns, a warp for each of them.
/// Grid: eight columns x slots. Block: 256. Shared: two 32 x 33 float64 tiles and two columns of 32
/// a warp, 20.5 KiB. Bound by: latency, a block of rows waits for the one before.
__global__ void __launch_bounds__(kThreads)
    solve_kernel(const double* factors, std::int64_t order, double* columns, std::int64_t leading,
                 std::int64_t stride) {
  auto* inverse = reinterpret_cast<double*>(device::dynamic_shared());
  double* below = inverse + kTile;
  const int row = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  double* right = below + kTile + 2 * warp * kSide;  // this block's right-hand side
  double* known = right + kSide;                     // the neighbouring block's solution
  const std::int64_t slot = blockIdx.y;
  const double* own = factors + slot * band_factor_elements(order);
  double* x = columns + slot * stride +
              (static_cast<std::int64_t>(blockIdx.x) * kSolveColumns + warp) * leading;
  const std::int64_t blocks = order / kBand;
  for (std::int64_t block = 0; block < blocks; ++block) {
    __syncthreads();
    load_tile(inverse, own + block * 2 * kSquare, row, warp);
    if (block > 0) {
      load_tile(below, own + (block - 1) * 2 * kSquare + kSquare, row, warp);
    }
    __syncthreads();
    double value = x[block * kBand + row];
    if (block > 0) {
      value -= times<false>(below, known, row);
    }
    right[row] = value;
    __syncwarp();
    value = times<false>(inverse, right, row);
    known[row] = value;
    x[block * kBand + row] = value;
    __syncwarp();
  }
  for (std::int64_t block = blocks - 1; block >= 0; --block) {
    const bool has_next = block + 1 < blocks;
    __syncthreads();
    load_tile(inverse, own + block * 2 * kSquare, row, warp);
    if (has_next) {
      load_tile(below, own + block * 2 * kSquare + kSquare, row, warp);
    }
    __syncthreads();
    double value = x[block * kBand + row];
    if (has_next) {
      value -= times<true>(below, known, row);
    }
    right[row] = value;
    __syncwarp();
    value = times<true>(inverse, right, row);
    known[row] = value;
    x[block * kBand + row] = value;
    __syncwarp();
  }
}

}  // namespace

template <typename Real>
void factor_bands(const BandSystem<Real>& system, const double* shifts, double* factors, int* info,
                  cudaStream_t stream) {
  launch(factor_kernel<Real>, dim3(static_cast<unsigned>(system.slots)), dim3(kThreads),
         4 * kTile * sizeof(double), stream, system, shifts, factors, info);
}

void solve_bands(const double* factors, std::int64_t order, std::int64_t slots, double* columns,
                 std::int64_t leading, std::int64_t stride, std::int64_t count,
                 cudaStream_t stream) {
  expects(count > 0 && count % kSolveColumns == 0 && slots > 0 && slots <= 65535,
          "columns to solve with bands for");
  launch(solve_kernel,
         dim3(static_cast<unsigned>(count / kSolveColumns), static_cast<unsigned>(slots)),
         dim3(kThreads), (2 * kTile + 2 * kWarps * kSide) * sizeof(double), stream, factors, order,
         columns, leading, stride);
}

template void factor_bands(const BandSystem<float>&, const double*, double*, int*, cudaStream_t);
template void factor_bands(const BandSystem<double>&, const double*, double*, int*, cudaStream_t);

}  // namespace vindex::kernels
