// Owns Cholesky factors of a batch, left-looking by blocks of 64 columns: the block's columns lose
// what the columns before them contribute (one product of cuBLAS for the batch), its square is
// factored by one thread block per matrix in shared memory, and every row below is solved by one
// thread.
//
//   S_kk - L_k L_k^T = L_kk L_kk^T,    L_ik = (S_ik - L_i L_k^T) L_kk^-T,    L_k the columns before
//
// Why not cuSOLVER's potrfBatched: it takes square matrices and no trapezoid below, so CholeskyQR
// would need another pass for the rows, and it is made for many small matrices, not for a few of
// order 1000 and more.
#include "dense_batch.hpp"

#include "core/integers.hpp"
#include "kernels/device/check.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {

namespace {

constexpr int kBlock = 64;
constexpr int kStride = kBlock + 1;  ///< between columns in shared memory: rows spread over banks
constexpr int kFactorThreads = 256;
constexpr int kPanelThreads = 128;
constexpr int kPart = 8;  ///< columns of a panel that a thread has in registers

// `square` is the block's first element.
// Grid: a block per matrix. Block: 256. Shared: 64 x 65 float64, 32.5 KiB. Bound by: latency, 64
// dependent columns.
__global__ __launch_bounds__(kFactorThreads) void factor_kernel(double* square,
                                                                std::int64_t leading,
                                                                std::int64_t stride, int size,
                                                                std::int64_t first, int* info) {
  auto* a = reinterpret_cast<double*>(device::dynamic_shared());
  double* own = square + static_cast<std::int64_t>(blockIdx.x) * stride;
  const int row = static_cast<int>(threadIdx.x) % kBlock;
  const int lane = static_cast<int>(threadIdx.x) / kBlock;
  constexpr int kLanes = kFactorThreads / kBlock;
  for (int col = lane; col < size; col += kLanes) {
    if (row < size && row >= col) {
      a[col * kStride + row] = own[col * leading + row];
    }
  }
  __syncthreads();
  int failed = 0;
  for (int k = 0; k < size; ++k) {
    double pivot = a[k * kStride + k];
    if (!(pivot > 0.0)) {  // also a NaN
      failed = failed == 0 ? k + 1 : failed;
      pivot = 1.0;
    }
    const double root = sqrt(pivot);
    __syncthreads();
    if (lane == 0 && row >= k && row < size) {
      a[k * kStride + row] = row == k ? root : a[k * kStride + row] / root;
    }
    __syncthreads();
    for (int col = k + 1 + lane; col < size; col += kLanes) {
      if (row < size && row >= col) {
        a[col * kStride + row] =
            fma(-a[k * kStride + row], a[k * kStride + col], a[col * kStride + row]);
      }
    }
    __syncthreads();
  }
  for (int col = lane; col < size; col += kLanes) {
    if (row < size && row >= col) {
      own[col * leading + row] = a[col * kStride + row];
    }
  }
  if (threadIdx.x == 0 && failed != 0 && info[blockIdx.x] == 0) {
    info[blockIdx.x] = static_cast<int>(first) + failed;
  }
}

// Rows x of the panel below a factored square L become x L^-T, a thread per row.
// Grid: blocks of 128 rows of all matrices. Block: 128. Shared: 64 x 64 float64 and 64 reciprocals,
// 32.5 KiB. Bound by: float64 arithmetic.
__global__ __launch_bounds__(kPanelThreads) void panel_kernel(double* square, std::int64_t leading,
                                                              std::int64_t stride, int size,
                                                              std::int64_t rows, int row_blocks) {
  auto* l = reinterpret_cast<double*>(device::dynamic_shared());  // by columns, identity beyond
  double* reciprocal = l + kBlock * kBlock;
  const std::int64_t matrix = blockIdx.x / static_cast<unsigned int>(row_blocks);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x % static_cast<unsigned int>(row_blocks)) *
          kPanelThreads +
      threadIdx.x;
  double* own = square + matrix * stride;
  for (int i = static_cast<int>(threadIdx.x); i < kBlock * kBlock; i += kPanelThreads) {
    const int r = i % kBlock;
    const int c = i / kBlock;
    const double beyond = r == c ? 1.0 : 0.0;
    l[c * kBlock + r] = r < size && c < size && r >= c ? own[c * leading + r] : beyond;
  }
  __syncthreads();
  if (threadIdx.x < kBlock) {
    reciprocal[threadIdx.x] = 1.0 / l[threadIdx.x * kBlock + threadIdx.x];
  }
  const bool exists = row < rows;
  double* line = own + size + row;
  __syncthreads();
  if (!exists) {
    return;
  }
  // A few columns at a time in registers; what came before is read again, from the first-level
  // cache.
  for (int first = 0; first < size; first += kPart) {
    double x[kPart];
#pragma unroll
    for (int c = 0; c < kPart; ++c) {
      x[c] = first + c < size ? line[(first + c) * leading] : 0.0;
    }
#pragma unroll 2
    for (int k = 0; k < first; ++k) {
      const double known = line[k * leading];
#pragma unroll
      for (int c = 0; c < kPart; ++c) {
        x[c] = fma(-known, l[k * kBlock + first + c], x[c]);
      }
    }
#pragma unroll
    for (int k = 0; k < kPart; ++k) {
      // The quotient to its last bit but one.
      const double divisor = l[(first + k) * kBlock + first + k];
      const double quotient = x[k] * reciprocal[first + k];
      x[k] = fma(fma(-quotient, divisor, x[k]), reciprocal[first + k], quotient);
#pragma unroll
      for (int c = k + 1; c < kPart; ++c) {
        x[c] = fma(-x[k], l[(first + k) * kBlock + first + c], x[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kPart; ++c) {
      if (first + c < size) {
        line[(first + c) * leading] = x[c];
      }
    }
  }
}

}  // namespace

void cholesky(cublasHandle_t blas, cudaStream_t stream, double* matrices, std::int64_t rows,
              std::int64_t cols, std::int64_t leading, std::int64_t stride, std::int64_t batch,
              int* info) {
  expects(cols >= 0 && rows >= cols && leading >= rows && batch >= 0, "sizes of a Cholesky batch");
  if (batch == 0) {
    return;
  }
  check(cudaMemsetAsync(info, 0, static_cast<std::size_t>(batch) * sizeof(int), stream));
  const double minus_one = -1.0;
  const double one = 1.0;
  for (std::int64_t first = 0; first < cols; first += kBlock) {
    const auto size = static_cast<int>(std::min<std::int64_t>(kBlock, cols - first));
    double* square = matrices + first * leading + first;
    if (first > 0) {
      check(cublasDgemmStridedBatched(
          blas, CUBLAS_OP_N, CUBLAS_OP_T, blas_int(rows - first), size, blas_int(first), &minus_one,
          matrices + first, blas_int(leading), stride, matrices + first, blas_int(leading), stride,
          &one, square, blas_int(leading), stride, blas_int(batch)));
    }
    launch(factor_kernel, dim3(static_cast<unsigned int>(batch)), dim3(kFactorThreads),
           kBlock * kStride * sizeof(double), stream, square, leading, stride, size, first, info);
    const std::int64_t below = rows - first - size;
    if (below > 0) {
      const std::int64_t row_blocks = ceil_divide(below, kPanelThreads);
      launch(panel_kernel, dim3(static_cast<unsigned int>(batch * row_blocks)), dim3(kPanelThreads),
             (kBlock * kBlock + kBlock) * sizeof(double), stream, square, leading, stride, size,
             below, static_cast<int>(row_blocks));
    }
  }
}

}  // namespace vindex::kernels
