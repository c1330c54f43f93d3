// Owns keeping the panels of a reduction and products of Q or Q^T with columns, Z <- Z - V (T (V^T
// Z)) panel by panel (T^T for Q^T). The compact WY form, as LAPACK's larfb applies it.
//
// A block keeps eight columns of one matrix for all panels, so that no panel is a launch and no
// product waits for another block. Why not cuBLAS per panel: n / 32 launches of three thin products
// each, for a handful of columns, would be launch time alone.
#include "band_back_transform.hpp"

#include "kernels/device/launch.hpp"

#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kWarpLanes = 32;
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kPanel = static_cast<int>(kBand);
constexpr int kColumns = static_cast<int>(kBackTransformColumns);
constexpr int kSmall = kPanel * kColumns;
static_assert(kSmall == kThreads, "a thread for every element of a small product");

/// Grid: x blocks of kBand rows, of which the first takes T, z matrices. Block: kThreads. Shared:
/// none. Bound by: memory, V and T read and written once.
template <typename Real>
__global__ void __launch_bounds__(kThreads)
    keep_kernel(const Real* factors, const Real* small, Real* matrices, std::int64_t order,
                std::int64_t start) {
  const std::int64_t matrix = blockIdx.z;
  const std::int64_t block = blockIdx.x;
  const Real* v = factors + (matrix * order + (block - 1) * kBand) * kFactorStride;
  const Real* t = small + matrix * 2 * kBand * kBand;
  Real* to = matrices + (matrix * order + start + block * kBand) * order + start;
  for (int i = static_cast<int>(threadIdx.x); i < kPanel * kPanel; i += kThreads) {
    const int row = i / kPanel;
    const int column = i % kPanel;
    to[row * order + column] = block == 0 ? t[i] : v[row * kFactorStride + column];
  }
}

template <typename Real>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / static_cast<int>(sizeof(Real));
  Real values[kCount];
};

/// Holds its columns row by row in its part of the scratch memory. Per panel: S = V^T Z by warps
/// that take rows in turn, whose sums are added in order; T S or T^T S; Z -= V (T S), a row for
/// each thread. Grid: x kColumns columns, y slots. Block: kThreads. Shared: partial sums of the
/// warps, S and T S, 10 KiB in float32, 20 in float64. Bound by: memory, V read twice for every
/// kColumns columns, and two barriers a panel.
template <typename Real>
__global__ void __launch_bounds__(kThreads) back_transform_kernel(BackTransform<Real> in) {
  auto* partial = reinterpret_cast<Real*>(device::dynamic_shared());
  Real* sums = partial + kWarps * kSmall;
  Real* turned = sums + kSmall;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpLanes;
  const int warp = thread / kWarpLanes;
  const std::int64_t slot = blockIdx.y;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kColumns;
  const Real* matrix = in.matrices + in.which[slot] * in.order * in.order;
  Real* z = in.scratch + (slot * in.columns + first) * in.order;

  const double* from = in.from.data + slot * in.from.stride + first * in.from.leading;
  for (int c = 0; c < kColumns; ++c) {
    for (std::int64_t row = thread; row < in.order; row += kThreads) {
      z[row * kColumns + c] =
          row < in.from.rows ? static_cast<Real>(from[c * in.from.leading + row]) : Real(0);
    }
  }
  __syncthreads();

  const std::int64_t panels = in.order / kBand - 1;
  for (std::int64_t step = 0; step < panels; ++step) {
    const std::int64_t start = (in.transposed ? step : panels - 1 - step) * kBand;
    const std::int64_t rows = in.order - start - kBand;
    const Real* v = matrix + (start + kBand) * in.order + start;
    const Real* t = matrix + start * in.order + start;
    Real* behind = z + (start + kBand) * kColumns;

    Real own[kColumns] = {};
#pragma unroll 4
    for (std::int64_t row = warp; row < rows; row += kWarps) {
      const Real value = v[row * in.order + lane];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        own[c] = fma(value, behind[row * kColumns + c], own[c]);
      }
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      partial[warp * kSmall + lane * kColumns + c] = own[c];
    }
    __syncthreads();
    Real total = Real(0);
    for (int other = 0; other < kWarps; ++other) {
      total += partial[other * kSmall + thread];
    }
    sums[thread] = total;
    __syncthreads();
    const int i = thread / kColumns;
    const int column = thread % kColumns;
    Real product = Real(0);
#pragma unroll 8
    for (int j = 0; j < kPanel; ++j) {
      const Real factor = in.transposed ? t[j * in.order + i] : t[i * in.order + j];
      product = fma(factor, sums[j * kColumns + column], product);
    }
    turned[thread] = -product;
    __syncthreads();

    for (std::int64_t row = thread; row < rows; row += kThreads) {
      Real x[kColumns];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        x[c] = behind[row * kColumns + c];
      }
      const auto* packs = reinterpret_cast<const Pack<Real>*>(v + row * in.order);
#pragma unroll 2
      for (int j = 0; j < kPanel; j += Pack<Real>::kCount) {
        const Pack<Real> pack = packs[j / Pack<Real>::kCount];
#pragma unroll
        for (int k = 0; k < Pack<Real>::kCount; ++k) {
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            x[c] = fma(pack.values[k], turned[(j + k) * kColumns + c], x[c]);
          }
        }
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        behind[row * kColumns + c] = x[c];
      }
    }
    __syncthreads();
  }

  double* to = in.to.data + slot * in.to.stride + first * in.to.leading;
  for (int c = 0; c < kColumns; ++c) {
    for (std::int64_t row = thread; row < in.to.rows; row += kThreads) {
      to[c * in.to.leading + row] = static_cast<double>(z[row * kColumns + c]);
    }
  }
}

}  // namespace

template <typename Real>
void keep_panel(const Factors<Real>& factors, Real* matrices, cudaStream_t stream) {
  launch(keep_kernel<Real>,
         dim3(static_cast<unsigned>(factors.rows / kBand + 1), 1,
              static_cast<unsigned>(factors.batch)),
         dim3(kThreads), 0, stream, factors.factors, factors.small, matrices, factors.order,
         factors.start - kBand);
}

template <typename Real>
void back_transform(const BackTransform<Real>& turn, cudaStream_t stream) {
  expects(turn.columns > 0 && turn.columns % kBackTransformColumns == 0 && turn.slots > 0 &&
              turn.slots <= 65535 && turn.order % kBand == 0 && turn.from.rows <= turn.order &&
              turn.to.rows <= turn.order,
          "columns to turn by the factor of a reduction");
  launch(back_transform_kernel<Real>,
         dim3(static_cast<unsigned>(turn.columns / kBackTransformColumns),
              static_cast<unsigned>(turn.slots)),
         dim3(kThreads), (kWarps + 2) * kSmall * sizeof(Real), stream, turn);
}

template void keep_panel(const Factors<float>&, float*, cudaStream_t);
template void keep_panel(const Factors<double>&, double*, cudaStream_t);
template void back_transform(const BackTransform<float>&, cudaStream_t);
template void back_transform(const BackTransform<double>&, cudaStream_t);

}  // namespace vindex::kernels
