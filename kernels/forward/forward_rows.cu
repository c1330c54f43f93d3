// Owns the kernels that gather columns and add biases, with their launches.
#include "forward_rows.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <algorithm>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;

/// A thread per column; blocks of the grid's y take rows in turn.
dim3 grid_of(std::int64_t rows, std::int64_t count) {
  constexpr std::int64_t kMaxInY = 4096;
  return {static_cast<unsigned>(ceil_divide(count, static_cast<std::int64_t>(kThreads))),
          static_cast<unsigned>(std::min(rows, kMaxInY))};
}

__device__ inline std::int64_t own_column() {
  return static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

// Grid: 256 columns x up to 4,096 rows, taken in turn. Block: 256. Shared: none. Bound by: memory.
__global__ void __launch_bounds__(kThreads)
    gather_columns_kernel(const float* from, std::int64_t rows, std::int64_t stride,
                          std::int64_t step, std::int64_t count, float* out) {
  const std::int64_t i = own_column();
  if (i >= count) {
    return;
  }
  for (std::int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    out[r * count + i] = from[r * stride + i * step];
  }
}

// Grid: 256 columns x up to 4,096 rows, taken in turn. Block: 256. Shared: none. Bound by: memory.
__global__ void __launch_bounds__(kThreads)
    add_bias_kernel(const float* bias, std::int64_t rows, std::int64_t count, float* y) {
  const std::int64_t i = own_column();
  if (i >= count) {
    return;
  }
  const float value = bias[i];
  for (std::int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    y[r * count + i] += value;
  }
}

}  // namespace

void gather_columns(const float* from, std::int64_t rows, std::int64_t stride, std::int64_t step,
                    std::int64_t count, float* out, cudaStream_t stream) {
  if (rows > 0 && count > 0) {
    launch(gather_columns_kernel, grid_of(rows, count), dim3(kThreads), 0, stream, from, rows,
           stride, step, count, out);
  }
}

void add_bias(const float* bias, std::int64_t rows, std::int64_t count, float* y,
              cudaStream_t stream) {
  if (rows > 0 && count > 0) {
    launch(add_bias_kernel, grid_of(rows, count), dim3(kThreads), 0, stream, bias, rows, count, y);
  }
}

}  // namespace vindex::kernels
