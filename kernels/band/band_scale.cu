// Owns the scale: 2^-k with 2^k just above the largest diagonal entry. In a positive semidefinite
// matrix |a_ij| <= sqrt(a_ii a_jj), so the diagonal alone says how large anything is. Powers of two
// round nothing.
#include "band_layout.hpp"
#include "band_scale.hpp"

#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>
#include <limits>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;

// Grid: a block per matrix. Block: 256. Shared: a Real per thread, 1 KiB (float64: 2). Bound by:
// latency of the diagonal, a sector per entry.
template <typename Real>
__global__ void __launch_bounds__(kThreads)
    find_exponents_kernel(const Real* matrices, std::int64_t order, std::int32_t* exponents) {
  auto* largest = reinterpret_cast<Real*>(device::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t matrix = blockIdx.x;
  const Real* values = matrices + matrix * order * order;
  Real own = Real(0);
  for (std::int64_t i = thread; i < order; i += kThreads) {
    const Real magnitude = fabs(values[i * (order + 1)]);
    own = magnitude > own ? magnitude : own;  // false for not-a-number
  }
  largest[thread] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half && largest[thread + half] > largest[thread]) {
      largest[thread] = largest[thread + half];
    }
  }
  if (thread == 0) {
    // Both 2^exponent and its inverse must be normal numbers.
    constexpr int kLargest = std::numeric_limits<Real>::max_exponent - 2;
    int exponent = 0;
    if (largest[0] > Real(0)) {
      if (largest[0] <= std::numeric_limits<Real>::max()) {
        (void)frexp(largest[0], &exponent);
      }
      exponent = exponent > kLargest ? kLargest : (exponent < -kLargest ? -kLargest : exponent);
    }
    exponents[matrix] = exponent;
  }
}

// Grid: blocks of 32 rows x 1 x matrices. Block: 256. Shared: none. Bound by: memory (the lower
// triangle, read and written once).
template <typename Real>
__global__ void __launch_bounds__(kThreads)
    scale_kernel(Real* matrices, std::int64_t order, const std::int32_t* exponents) {
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t first = blockIdx.x * kBand;
  const Real scale = ldexp(Real(1), -exponents[matrix]);
  const std::int64_t columns = first + kBand;
  Real* rows = matrices + (matrix * order + first) * order;
  for (int row = 0; row < static_cast<int>(kBand); ++row) {
    for (std::int64_t column = threadIdx.x; column < columns; column += kThreads) {
      rows[row * order + column] *= scale;
    }
  }
}

}  // namespace

template <typename Real>
void find_exponents(const Real* matrices, std::int64_t order, std::int64_t batch,
                    std::int32_t* exponents, cudaStream_t stream) {
  launch(find_exponents_kernel<Real>, dim3(static_cast<unsigned>(batch)), dim3(kThreads),
         kThreads * sizeof(Real), stream, matrices, order, exponents);
}

template <typename Real>
void scale_matrices(Real* matrices, std::int64_t order, std::int64_t batch,
                    const std::int32_t* exponents, cudaStream_t stream) {
  launch(scale_kernel<Real>,
         dim3(static_cast<unsigned>(order / kBand), 1, static_cast<unsigned>(batch)),
         dim3(kThreads), 0, stream, matrices, order, exponents);
}

template void find_exponents(const float*, std::int64_t, std::int64_t, std::int32_t*, cudaStream_t);
template void find_exponents(const double*, std::int64_t, std::int64_t, std::int32_t*,
                             cudaStream_t);
template void scale_matrices(float*, std::int64_t, std::int64_t, const std::int32_t*, cudaStream_t);
template void scale_matrices(double*, std::int64_t, std::int64_t, const std::int32_t*,
                             cudaStream_t);

}  // namespace vindex::kernels
