// Owns the kernels around the library's products, with their launches.
#include "cuda_inner_products.hpp"

#include "core/integers.hpp"
#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;

/// 2^exponent of `largest`, or 1 where nothing has to be done, or can.
__device__ inline double factor_of(float largest) {
  constexpr float kMin = 0x1p-40F;
  constexpr float kMax = 0x1p+40F;
  if (largest == 0.0F || (largest >= kMin && largest <= kMax) || !isfinite(largest)) {
    return 1.0;
  }
  constexpr long long kExponentBits = 0x7FF0000000000000LL;
  return __longlong_as_double(__double_as_longlong(static_cast<double>(largest)) & kExponentBits);
}

__device__ inline float divided(float value, double factor) {
  return static_cast<float>(static_cast<double>(value) / factor);
}

// Grid: 256 vectors x 256 rows, taken in turn. Block: 256. Shared: none. Bound by: memory.
__global__ void __launch_bounds__(kThreads)
    subtract_means_kernel(VectorLayout layout, const double* means, float* values) {
  const std::int64_t rows = layout.depth * layout.blocks;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= layout.vectors) {
    return;
  }
  for (std::int64_t k = blockIdx.y; k < rows; k += gridDim.y) {
    float& value = values[k * layout.stride + i];
    value = static_cast<float>(static_cast<double>(value) - means[i]);
  }
}

// Grid: vectors x blocks of components. Block: 256. Shared: 3 KiB, a float64 and a float32 per
// thread. Bound by: memory (the values, read twice and written).
__global__ void __launch_bounds__(kThreads)
    range_of_rows_kernel(VectorLayout layout, float* values, double* factors, double* squares) {
  auto* partial_squares = reinterpret_cast<double*>(device::dynamic_shared());
  auto* partial_largest = reinterpret_cast<float*>(partial_squares + kThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t i = blockIdx.x;
  const std::int64_t block = blockIdx.y;
  float* const own = values + i * layout.stride + block * layout.depth;
  float largest = 0.0F;
  double sum = 0.0;
  for (std::int64_t k = thread; k < layout.depth; k += kThreads) {
    const float magnitude = fabsf(own[k]);
    largest = largest < magnitude ? magnitude : largest;
    sum = fma(static_cast<double>(magnitude), static_cast<double>(magnitude), sum);
  }
  partial_squares[thread] = sum;
  partial_largest[thread] = largest;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      partial_squares[thread] += partial_squares[thread + half];
      partial_largest[thread] = fmaxf(partial_largest[thread], partial_largest[thread + half]);
    }
  }
  __syncthreads();
  const double factor = factor_of(partial_largest[0]);
  if (thread == 0) {
    factors[block * layout.vectors + i] = factor;
    squares[block * layout.vectors + i] = partial_squares[0];
  }
  if (factor != 1.0) {
    for (std::int64_t k = thread; k < layout.depth; k += kThreads) {
      own[k] = divided(own[k], factor);
    }
  }
}

/// A thread per column and block of rows.
/// Grid: 256 vectors x blocks of components. Block: 256. Shared: none. Bound by: memory (the
/// values, read twice and written).
__global__ void __launch_bounds__(kThreads)
    range_of_columns_kernel(VectorLayout layout, float* values, double* factors, double* squares) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t block = blockIdx.y;
  if (i >= layout.vectors) {
    return;
  }
  float* const own = values + block * layout.depth * layout.stride + i;
  float largest = 0.0F;
  double sum = 0.0;
  for (std::int64_t k = 0; k < layout.depth; ++k) {
    const float magnitude = fabsf(own[k * layout.stride]);
    largest = largest < magnitude ? magnitude : largest;
    sum = fma(static_cast<double>(magnitude), static_cast<double>(magnitude), sum);
  }
  const double factor = factor_of(largest);
  factors[block * layout.vectors + i] = factor;
  squares[block * layout.vectors + i] = sum;
  if (factor != 1.0) {
    for (std::int64_t k = 0; k < layout.depth; ++k) {
      own[k * layout.stride] = divided(own[k * layout.stride], factor);
    }
  }
}

/// A thread per sum, in the order of blocks and chunks.
/// Grid: rows x 256 columns. Block: 256. Shared: none. Bound by: memory (float32 products read,
/// float64 sums read and written).
__global__ void __launch_bounds__(kThreads) add_products_kernel(BlockProducts from, double* sums) {
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const std::int64_t i = blockIdx.x;
  if (j >= from.n || (from.squares != nullptr && j > i)) {
    return;
  }
  double sum = sums[i * from.n + j];
  for (std::int64_t block = 0; block < from.blocks; ++block) {
    if (from.squares != nullptr && i == j) {
      sum += from.squares[block * from.m + i];
      continue;
    }
    const double factor =
        from.left_factors[block * from.m + i] * from.right_factors[block * from.n + j];
    for (std::int64_t chunk = 0; chunk < from.chunks; ++chunk) {
      const std::int64_t at = ((chunk * from.batch + block) * from.m + i) * from.n + j;
      sum = fma(static_cast<double>(from.products[at]), factor, sum);
    }
  }
  sums[i * from.n + j] = sum;
}

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>(ceil_divide(count, static_cast<std::int64_t>(kThreads)));
}

}  // namespace

void subtract_means(const VectorLayout& layout, const double* means, float* values,
                    cudaStream_t stream) {
  constexpr unsigned kRowsAtOnce = 256;
  launch(subtract_means_kernel, dim3(blocks_of(layout.vectors), kRowsAtOnce), dim3(kThreads), 0,
         stream, layout, means, values);
}

void bring_into_range(const VectorLayout& layout, float* values, double* factors, double* squares,
                      cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(layout.blocks);
  if (layout.columns) {
    launch(range_of_columns_kernel, dim3(blocks_of(layout.vectors), blocks), dim3(kThreads), 0,
           stream, layout, values, factors, squares);
    return;
  }
  launch(range_of_rows_kernel, dim3(static_cast<unsigned>(layout.vectors), blocks), dim3(kThreads),
         kThreads * (sizeof(double) + sizeof(float)), stream, layout, values, factors, squares);
}

void add_products(const BlockProducts& from, double* sums, cudaStream_t stream) {
  launch(add_products_kernel, dim3(static_cast<unsigned>(from.m), blocks_of(from.n)),
         dim3(kThreads), 0, stream, from, sums);
}

}  // namespace vindex::kernels
