// Owns the sum over passes k of ||A_k||_F^2, A_k what the reduction had left before pass k, from
// the band alone: A_k is similar to the part of the band behind pass k. So block b of columns
// counts b + 1 times, elements below the diagonal twice. The rounding of a reduction follows from
// it (statistics/judgement/spectrum_error.hpp).
#include "band_layout.hpp"
#include "band_reduction.hpp"

#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;

/// Block b of columns is behind b passes and in one.
/// Grid: a block per matrix. Block: 256. Shared: 2 KiB, a sum per thread. Bound by: memory (the
/// band, read once).
template <typename BandReal>
__global__ void __launch_bounds__(kThreads)
    sum_passes_kernel(const BandReal* bands, std::int64_t order, double* sums) {
  auto* partial = reinterpret_cast<double*>(device::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const BandReal* band = bands + static_cast<std::int64_t>(blockIdx.x) * band_elements(order);
  double own = 0.0;
  for (std::int64_t column = thread; column < order; column += kThreads) {
    const auto diagonal = static_cast<double>(band[band_index(column, column)]);
    double below = 0.0;
    for (std::int64_t row = column + 1; row <= column + kBand; ++row) {
      const auto value = static_cast<double>(band[band_index(row, column)]);
      below = fma(value, value, below);
    }
    own = fma(static_cast<double>(column / kBand + 1), fma(diagonal, diagonal, 2.0 * below), own);
  }
  partial[thread] = own;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      partial[thread] += partial[thread + half];
    }
  }
  if (thread == 0) {
    sums[blockIdx.x] = partial[0];
  }
}

}  // namespace

template <typename BandReal>
void sum_passes(const BandReal* bands, std::int64_t order, std::int64_t batch, double* sums,
                cudaStream_t stream) {
  launch(sum_passes_kernel<BandReal>, dim3(static_cast<unsigned>(batch)), dim3(kThreads),
         kThreads * sizeof(double), stream, bands, order, sums);
}

template void sum_passes(const float*, std::int64_t, std::int64_t, double*, cudaStream_t);
template void sum_passes(const double*, std::int64_t, std::int64_t, double*, cudaStream_t);

}  // namespace vindex::kernels
