// Owns the Householder QR of panels. Per column, alpha its pivot and x what is below:
//
//   beta = -sign(alpha) sqrt(alpha^2 + |x|^2),  tau = (beta - alpha) / beta,
//   v = [1, x / (alpha - beta)]
//
// Source: LAPACK larfg, geqr2. The sums x^T P_j of all columns are made before beta is known, and
// corrected by the pivot row, so that a column costs one barrier of the block and not two.
//
// Why not Cholesky QR or TSQR, which would need fewer barriers: the first wants columns of a
// condition below eps^-1/2, which panels of a Gram matrix need not have, the second must rebuild
// the reflectors from Q. A batch of matrices hides the barriers.
#include "band_panel.hpp"
#include "band_product.hpp"
#include "inverse_root.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "kernels/device/launch.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <intrinsics.hpp>

namespace vindex::kernels {
namespace {

constexpr int kMaximumThreads = 512;
constexpr int kMaximumWarps = kMaximumThreads / kWarp;

/// Shared memory of a panel kernel. Sums and pivot rows come twice, so that one barrier per step is
/// enough: who is late still reads those of the step before.
template <typename Real, int kWidth>
struct PanelShared {
  Real sums[2][kMaximumWarps][kWidth];
  Real pivot_row[2][kWidth];
  Real totals[kMaximumWarps][kWidth];
  Real taus[kBand];
};

/// One halving of warp_totals(): lanes that differ in bit kHalf swap halves of what they hold.
template <int kHalf, typename Real, int kWidth>
__device__ void fold(Real (&values)[kWidth], int lane) {
  if constexpr (kHalf >= 1) {
    const bool upper = (lane & kHalf) != 0;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const Real kept = upper ? values[i + kHalf] : values[i];
      const Real sent = upper ? values[i] : values[i + kHalf];
      values[i] = kept + __shfl_xor_sync(0xffffffffU, sent, kHalf);
    }
    fold<kHalf / 2>(values, lane);
  }
}

/// Adds `values` over the lanes of a warp; lane l gets the total of value l % kWidth. Halving what
/// is exchanged takes kWidth shuffles in place of 5 kWidth.
template <typename Real, int kWidth>
__device__ Real warp_totals(Real (&values)[kWidth], int lane) {
  fold<kWidth / 2>(values, lane);
  Real total = values[0];
#pragma unroll
  for (int offset = kWidth; offset < kWarp; offset *= 2) {
    total += __shfl_xor_sync(0xffffffffU, total, offset);
  }
  return total;
}

/// Sums over the threads of a block, the same bits in every thread. `step` counts the calls.
template <typename Real, int kWidth, int kRoom>
__device__ void block_totals(PanelShared<Real, kRoom>& shared, Real (&values)[kWidth], int step) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  const Real own = warp_totals<Real, kWidth>(values, lane);
  if (lane < kWidth) {
    shared.sums[step % 2][warp][lane] = own;
  }
  __syncthreads();
  constexpr int kGroups = kWarp / kWidth;
  Real total = Real(0);
  for (int other = lane / kWidth; other < warps; other += kGroups) {
    total += shared.sums[step % 2][other][lane % kWidth];
  }
#pragma unroll
  for (int offset = kWidth; offset < kWarp; offset *= 2) {
    total += __shfl_xor_sync(0xffffffffU, total, offset);
  }
  if (lane < kWidth) {
    shared.totals[warp][lane] = total;
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    values[i] = shared.totals[warp][i];
  }
  __syncwarp();
}

/// Writes part of a row 16 bytes at a time where it is as wide: `out` is aligned to its width.
template <typename Real, int kWidth>
__device__ void store_row(Real* out, const Real (&values)[kWidth]) {
  constexpr int kPack = static_cast<int>(kWidth * sizeof(Real) < 16 ? 1 : 16 / sizeof(Real));
  struct alignas(kPack * sizeof(Real)) Pack {
    Real values[kPack];
  };
#pragma unroll
  for (int first = 0; first < kWidth; first += kPack) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      pack.values[i] = values[first + i];
    }
    *reinterpret_cast<Pack*>(out + first) = pack;
  }
}

/// beta, tau and what the column is scaled by, of a pivot alpha and |x|^2 below it.
template <typename Real>
struct Reflector {
  Real beta, tau, inverse;
};
/// With q = alpha^2 + |x|^2 and one root r = q^-1/2, in place of a root and two quotients that wait
/// for it: |beta| = q r, tau = 1 + |alpha| r, 1 / (alpha - beta) = +-1 / (|alpha| + q r).
template <typename Real>
__device__ Reflector<Real> reflector_of(Real alpha, Real squares) {
  if (squares < Real(kNegligibleSquare<Real>)) {  // not-a-number goes on
    return {alpha, Real(0), Real(0)};
  }
  const Real q = fma(alpha, alpha, squares);
  const Real r = device::inverse_root(q);
  Real root = q * r;
  root = fma(fma(-root, root, q), Real(0.5) * r, root);
  const Real size = fabs(alpha);
  return {-copysign(root, alpha), fma(size, r, Real(1)),
          copysign(device::reciprocal(size + root), alpha)};
}

/// Below so many columns there is no narrower loop.
constexpr int kLeastLive = 8;

/// Where eliminate() leaves column `column` of kWidth.
template <int kWidth>
__device__ constexpr int place_of_column(int column) {
  if constexpr (kWidth > kLeastLive) {
    constexpr int kHalf = kWidth / 2;
    return column < kHalf ? kHalf + column : place_of_column<kHalf>(column - kHalf);
  }
  return column;
}

/// From an element of R in the band to its neighbours.
constexpr int kColumnStep = static_cast<int>(kBandStride);
constexpr int kDiagonalStep = kColumnStep + 1;

/// Householder steps for the first kLive columns of x, which are what is left of kWidth. The pivot
/// column is always x[.][0]: columns turn round by one after each step, so that the loop needs no
/// register chosen at run time; R goes to `r`, its first element in the band. After half of the
/// steps the finished columns are the upper half, and a loop of half the width goes on without
/// them.
template <int kLive, typename Real, int kRows, int kWidth>
__device__ void eliminate(PanelShared<Real, kWidth>& shared, Real (&x)[kRows][kWidth], Real* r,
                          int first, int& step) {
  // A block has kBandWidth threads at least: pivots are among the first rows of each.
  const int thread = static_cast<int>(threadIdx.x);
  constexpr int kSteps = kLive > kLeastLive ? kLive / 2 : kLive;
#pragma unroll 1
  for (int k = 0; k < kSteps; ++k) {
    const int pivot = first + kWidth - kLive + k;
    const int live = kLive - k;  // columns from the pivot on
    Real sums[kLive];
#pragma unroll
    for (int c = 0; c < kLive; ++c) {
      sums[c] = Real(0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const Real below = i > 0 || thread > pivot ? x[i][0] : Real(0);
        sums[c] = fma(below, x[i][c], sums[c]);
      }
    }
    if (thread == pivot) {
#pragma unroll
      for (int c = 0; c < kLive; ++c) {
        shared.pivot_row[step % 2][c] = x[0][c];
      }
    }
    const Real* pivot_row = shared.pivot_row[step % 2];
    block_totals(shared, sums, step++);

    const auto [beta, tau, inverse] = reflector_of(pivot_row[0], sums[0]);
    if (thread == 0) {
      shared.taus[pivot] = tau;
    }
    Real v[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      v[i] = i > 0 || thread > pivot ? x[i][0] * inverse : Real(0);
    }
    if (thread == pivot) {
      v[0] = tau == Real(0) ? Real(0) : Real(1);
      r[pivot * kDiagonalStep] = beta;
    }
#pragma unroll
    for (int c = 1; c < kLive; ++c) {
      // v^T P_c: the pivot's own element, and x^T P_c scaled as x will be.
      const Real dot = fma(inverse, sums[c], pivot_row[c]);
      const Real factor = c < live ? -tau * dot : Real(0);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        x[i][c - 1] = fma(v[i], factor, x[i][c]);
      }
      if (thread == pivot && c < live) {
        r[pivot * kDiagonalStep + c * kColumnStep] = x[0][c - 1];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      x[i][kLive - 1] = v[i];
    }
  }
  if constexpr (kSteps < kLive) {
    eliminate<kLive / 2>(shared, x, r, first, step);
  }
}

/// A thread holds rows threadIdx.x + i blockDim.x, i < kRows, of kWidth columns. Grid: a block per
/// matrix. Block: a thread for each kRows rows, at most 512. Dynamic shared memory: PanelShared, 1
/// to 6 KiB. What binds: latency, a block sum and a reflector for each of kBand columns, and kBand
/// (kBand / kWidth - 1) / 2 block sums more for columns that catch up.
template <typename Real, int kRows, int kWidth>
__global__ void __launch_bounds__(kMaximumThreads) factor_panel_kernel(Panel<Real> panel) {
  auto& shared = *reinterpret_cast<PanelShared<Real, kWidth>*>(device::dynamic_shared());
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int rows = static_cast<int>(panel.rows);
  const int order = static_cast<int>(panel.order);  // of a matrix's columns, all within an int
  const std::int64_t matrix = blockIdx.x;
  Real* columns = panel.columns + matrix * panel.order * kBand;
  Real* factors = panel.factors + matrix * panel.order * kFactorStride;
  Real* r = panel.band + matrix * band_elements(panel.order) +
            band_index(panel.start + kBand, panel.start);
  int step = 0;

  for (int first = 0; first < kBandWidth; first += kWidth) {
    Real x[kRows][kWidth];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread + i * threads;
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        x[i][c] = row < rows ? columns[(first + c) * order + row] : Real(0);
      }
    }

    // Reflectors of the groups before, whose columns this thread wrote back for its own rows.
    for (int k = 0; k < first; ++k) {
      Real v[kRows];
      Real sums[kWidth];
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const int row = thread + i * threads;
        v[i] = row < rows ? columns[k * panel.order + row] : Real(0);
      }
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        sums[c] = Real(0);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          sums[c] = fma(v[i], x[i][c], sums[c]);
        }
      }
      block_totals(shared, sums, step++);
      const Real tau = shared.taus[k];
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        const Real factor = -tau * sums[c];
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          x[i][c] = fma(v[i], factor, x[i][c]);
        }
      }
    }
    if (thread < first) {  // rows that no later reflector touches
#pragma unroll
      for (int c = 0; c < kWidth; ++c) {
        r[(first + c) * kColumnStep + thread] = x[0][c];
      }
    }

    eliminate<kWidth>(shared, x, r, first, step);

#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int row = thread + i * threads;
      if (row < rows) {
        Real in_order[kWidth];
#pragma unroll
        for (int c = 0; c < kWidth; ++c) {
          in_order[c] = x[i][place_of_column<kWidth>(c)];
          columns[(first + c) * panel.order + row] = in_order[c];
        }
        store_row<Real, kWidth>(factors + row * kFactorStride + first, in_order);
      }
    }
  }
  __syncthreads();
  if (thread < kBandWidth) {
    panel.taus[matrix * kBand + thread] = shared.taus[thread];
  }
}

template <typename Real, int kRows, int kWidth>
void launch_panel(const Panel<Real>& panel, cudaStream_t stream) {
  const std::int64_t threads = ceil_divide(panel.rows, kRows * kWarp) * kWarp;
  launch(factor_panel_kernel<Real, kRows, kWidth>, dim3(static_cast<unsigned>(panel.batch)),
         dim3(static_cast<unsigned>(threads)), sizeof(PanelShared<Real, kWidth>), stream, panel);
}

}  // namespace

std::int64_t largest_panel_rows() { return std::int64_t{16} * kMaximumThreads; }

template <typename Real>
void factor_panels(const Panel<Real>& panel, cudaStream_t stream) {
  expects(panel.rows >= kBand && panel.rows <= largest_panel_rows(), "rows of a panel");
  // 256 bytes of columns per thread: few rows leave room for many columns, which saves the passes
  // that catch up with earlier groups.
  constexpr int kFull = static_cast<int>(64 * sizeof(float) / sizeof(Real));
  if (panel.rows <= 2 * kMaximumThreads) {
    launch_panel<Real, 2, kFull / 2>(panel, stream);
  } else if (panel.rows <= 4 * kMaximumThreads) {
    launch_panel<Real, 4, kFull / 4>(panel, stream);
  } else if (panel.rows <= 8 * kMaximumThreads) {
    launch_panel<Real, 8, kFull / 8>(panel, stream);
  } else {
    launch_panel<Real, 16, kFull / 32>(panel, stream);
  }
}

template void factor_panels(const Panel<float>&, cudaStream_t);
template void factor_panels(const Panel<double>&, cudaStream_t);

std::int64_t largest_band_order() { return largest_panel_rows() + kBand; }

}  // namespace vindex::kernels
