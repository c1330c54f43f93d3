// Owns element-wise steps of the search for lost values: the start, X - c D for corrections, norms
// of residuals. Sums run in a fixed tree, one block to a column, so that bits depend on no batch.
#include "core/integers.hpp"
#include "core/philox.hpp"
#include "kernels/band/inverse/band_inverse.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;

dim3 element_grid(std::int64_t elements, std::int64_t slots) {
  constexpr std::int64_t kMaxBlocks = 1024;
  return dim3(static_cast<unsigned>(
                  std::clamp<std::int64_t>(ceil_divide(elements, kThreads), 1, kMaxBlocks)),
              static_cast<unsigned>(slots));
}

// Grid: up to 1,024 blocks, which take elements in turn, x slots. Block: 256. Shared: none. Bound
// by: integer arithmetic of Philox.
__global__ void fill_kernel(double* columns, std::int64_t rows, std::int64_t count,
                            std::int64_t leading, std::int64_t stride) {
  double* own = columns + static_cast<std::int64_t>(blockIdx.y) * stride;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < rows * count; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const PhiloxBlock words = philox4x32_10({{static_cast<std::uint32_t>(i), 0, 0, 3}}, 0);
    own[i / rows * leading + i % rows] = static_cast<double>(words.word[0]) * 0x1p-31 - 1.0;
  }
}

// Grid: up to 1,024 blocks, which take elements in turn, x slots. Block: 256. Shared: none. Bound
// by: memory.
__global__ void subtract_kernel(const double* basis, const double* scales, double* correction,
                                std::int64_t elements) {
  const double scale = scales[blockIdx.y];
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * elements;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    correction[begin + i] = fma(-scale, correction[begin + i], basis[begin + i]);
  }
}

/// One order of summation.
/// Grid: a block per column. Block: 256. Shared: 2 KiB, a sum per thread. Bound by: memory.
__global__ void __launch_bounds__(kThreads)
    norms_kernel(const double* from, std::int64_t rows, double* norms) {
  auto* partial = reinterpret_cast<double*>(device::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const double* column = from + static_cast<std::int64_t>(blockIdx.x) * rows;
  double own = 0.0;
  for (std::int64_t i = thread; i < rows; i += kThreads) {
    own = fma(column[i], column[i], own);
  }
  partial[thread] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      partial[thread] += partial[thread + half];
    }
  }
  if (thread == 0) {
    norms[blockIdx.x] = sqrt(partial[0]);
  }
}

}  // namespace

void fill_start(double* columns, std::int64_t rows, std::int64_t count, std::int64_t leading,
                std::int64_t stride, std::int64_t slots, cudaStream_t stream) {
  launch(fill_kernel, element_grid(rows * count, slots), dim3(kThreads), 0, stream, columns, rows,
         count, leading, stride);
}

void subtract_correction(const double* basis, const double* scales, double* correction,
                         std::int64_t elements, std::int64_t slots, cudaStream_t stream) {
  launch(subtract_kernel, element_grid(elements, slots), dim3(kThreads), 0, stream, basis, scales,
         correction, elements);
}

void column_norms(const double* from, std::int64_t rows, std::int64_t columns, double* norms,
                  cudaStream_t stream) {
  launch(norms_kernel, dim3(static_cast<unsigned>(columns)), dim3(kThreads),
         kThreads * sizeof(double), stream, from, rows, norms);
}

}  // namespace vindex::kernels
