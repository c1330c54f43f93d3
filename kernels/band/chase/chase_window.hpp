// Owns what two warps do to one 32 x 32 window of a band in shared memory: make a reflector, move a
// bulge, reflect both sides of a diagonal window. Device code of band_chase.cu, which says how
// windows lie and in which order they are visited.
//
// Each of the two has half of a window's columns, four of every eight. Sums along rows need both
// halves: each leaves its part in shared memory, they meet at a barrier of their own, and from
// there on both hold the same vectors, element i in lane i, and make the same reflector. Reading
// ends before that meeting and writing begins behind it, so that one may read what the other will
// change.
#pragma once

#include "core/constants.hpp"
#include "kernels/band/band_layout.hpp"
#include "kernels/band/inverse_root.hpp"

#include <cuda_runtime.h>

#include <intrinsics.hpp>

namespace vindex::kernels::device::chase {

inline constexpr unsigned int kWholeWarp = 0xFFFFFFFFU;
inline constexpr int kSize = static_cast<int>(kBand);
inline constexpr int kColumn = 2 * kSize;  ///< elements of a column in the ring
inline constexpr int kHalves = 2;          ///< of a window, a warp each
inline constexpr int kRows = 4;            ///< of a window in one lane
inline constexpr int kCols = 4;
/// Numbers that the two warps of a window pass to each other.
inline constexpr int kScratch = kHalves * kSize;

__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }
__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }

/// Sum over the warp, the same bits in every lane.
template <typename Real>
__device__ Real warp_sum(Real value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

/// Half of `count` partial sums go to the lane at `distance`, the others are completed by its.
template <int kCount, typename Real>
__device__ void fold(Real* sums, int distance, bool upper) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    const Real given = upper ? sums[i] : sums[i + kCount / 2];
    const Real kept = upper ? sums[i + kCount / 2] : sums[i];
    sums[i] = kept + __shfl_xor_sync(kWholeWarp, given, distance);
  }
}

/// Sums over a half's columns, of which this lane has a part of rows rank + 8 a: lane i gets row i.
template <typename Real>
__device__ Real sum_rows(Real (&sums)[kRows], int lane) {
  fold<4>(sums, 16, (lane & 16) != 0);
  fold<2>(sums, 8, (lane & 8) != 0);
  return sums[0];
}

/// Sums over a half's rows: lane i gets column i % 8 / 2 of its four.
template <typename Real>
__device__ Real sum_columns(Real (&sums)[kCols], int lane) {
  fold<4>(sums, 4, (lane & 4) != 0);
  fold<2>(sums, 2, (lane & 2) != 0);
  return sums[0] + __shfl_xor_sync(kWholeWarp, sums[0], 1);
}

/// The reflector I - tau v v^T, v[0] = 1, element `lane` of v in each lane, that maps x (likewise)
/// to beta e_0. `other` becomes the inner product of v with it. With r = 1 / |x|: beta is -+ 1 / r,
/// tau = (beta - alpha) / beta = 1 + |alpha| r, and 1 / (alpha - beta) = +- r / tau; so that what
/// every sweep waits for is one inverse root and one reciprocal of a number in [1, 2].
template <typename Real>
struct Reflector {
  Real v, tau, beta, overlap;
};
template <typename Real>
__device__ Reflector<Real> reflect(Real x, Real other, int lane) {
  const Real alpha = __shfl_sync(kWholeWarp, x, 0);
  const Real first = __shfl_sync(kWholeWarp, other, 0);
  const Real rest = lane == 0 ? Real{0} : x;
  Real sums[2] = {rest * rest, rest * other};
  fold<2>(sums, 16, lane >= 16);
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) {
    sums[0] += __shfl_xor_sync(kWholeWarp, sums[0], distance);
  }
  const Real squares = __shfl_sync(kWholeWarp, sums[0], 0);
  const Real products = __shfl_sync(kWholeWarp, sums[0], 16);
  constexpr Real kMinSquares = Real(kNegligibleSquare<Real>);
  Reflector<Real> out = {lane == 0 ? Real{1} : Real{0}, Real{0}, alpha, first};
  // Not of a NaN, which stays in alpha or gets there through the windows.
  if (squares >= kMinSquares) {
    const Real square = multiply_add(alpha, alpha, squares);
    const Real root = inverse_root(square);
    const Real signed_root = alpha > Real{0} ? root : -root;
    out.tau = multiply_add(alpha, signed_root, Real{1});
    out.beta = -square * signed_root;
    const Real inverse = signed_root * reciprocal(out.tau);
    out.v = lane == 0 ? Real{1} : x * inverse;
    out.overlap = multiply_add(inverse, products, first);
  } else if (!(squares < kMinSquares)) {
    out.beta = squares;
  }
  return out;
}

/// One warp's view of the ring, the half `half` of every window. `meeting`: the barrier of the two.
template <typename Real>
class Windows {
 public:
  __device__ Windows(Real* ring, int ring_blocks, Real* scratch, int half, int meeting, int lane)
      : ring_(ring),
        columns_(ring_blocks * kSize),
        own_part_(scratch + half * kSize + lane),
        other_part_(scratch + (kHalves - 1 - half) * kSize + lane),
        meeting_(meeting),
        lane_(lane),
        rank_(lane % 8),
        first_column_(lane / 8 * 8 + half * kCols) {}

  /// Element `below` rows under the diagonal of the column at `place`.
  __device__ Real& at(int place, int below) { return ring_[wrapped(place) * kColumn + below]; }

  /// Clears the column at `place` below its subdiagonal: a sweep's first reflector.
  __device__ Real start(int place) {
    reflector_ = reflect(at(place, 1 + lane_), Real{0}, lane_);
    by_row(reflector_.v, v_row_);
    by_column(reflector_.v, v_column_);
    return reflector_.beta;
  }

  /// B := H' B H with the current reflector H and the next one, H', that clears B's first column.
  /// B's columns are those of the diagonal window before, the first at `place`; its rows begin
  /// kBand below the diagonal.
  __device__ void move_bulge(int place) {
    Real window[kRows][kCols];
    int offset[kCols];
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      offset[b] = columns_of_lane_[b] + kSize + rank_ - (first_column_ + b);
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        window[a][b] = ring_[offset[b] + 8 * a];
      }
    }
    const Real first = at(place, kSize + lane_);
    Real row_sums[kRows] = {};
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        row_sums[a] = multiply_add(window[a][b], v_column_[b], row_sums[a]);
      }
    }
    const Real w_own = reflector_.tau * sum_of_halves(sum_rows(row_sums, lane_));
    reflector_ = reflect(first - w_own, w_own, lane_);
    by_row(reflector_.v, v_row_);
    Real w[kRows];
    by_row(w_own, w);
    // z = tau' (B - w v^T)^T u, with B as it was.
    Real column_sums[kCols] = {};
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
#pragma unroll
      for (int b = 0; b < kCols; ++b) {
        column_sums[b] = multiply_add(window[a][b], v_row_[a], column_sums[b]);
      }
    }
    const Real column_sum = sum_columns(column_sums, lane_);
    Real z[kCols];
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      const Real sum = __shfl_sync(kWholeWarp, column_sum, lane_ / 8 * 8 + 2 * b);
      z[b] = reflector_.tau * multiply_add(-reflector_.overlap, v_column_[b], sum);
    }
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        Real value = multiply_add(-w[a], v_column_[b], window[a][b]);
        value = multiply_add(-v_row_[a], z[b], value);
        if (b == 0 && first_column_ == 0) {
          value = a == 0 && rank_ == 0 ? reflector_.beta : Real{0};
        }
        ring_[offset[b] + 8 * a] = value;
      }
    }
    by_column(reflector_.v, v_column_);
  }

  /// D := H D H on the diagonal window at `place`, lower triangle. With p = D v that is
  /// D - v K^T - K v^T, K = tau p - (tau^2 v^T p / 2) v. What lies above the diagonal is read where
  /// it is mirrored, so that p is sums along rows alone.
  __device__ void apply_both_sides(int place) {
    Real window[kRows][kCols];
    int row_offset[kRows];
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      row_offset[a] = column_offset(place + rank_ + 8 * a);
    }
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      columns_of_lane_[b] = column_offset(place + first_column_ + b);
      keep_in_register(columns_of_lane_[b]);
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        const int below = rank_ + 8 * a - (first_column_ + b);
        window[a][b] = ring_[(below >= 0 ? columns_of_lane_[b] : row_offset[a]) + abs(below)];
      }
    }
    Real row_sums[kRows] = {};
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        row_sums[a] = multiply_add(window[a][b], v_column_[b], row_sums[a]);
      }
    }
    const Real product = sum_of_halves(sum_rows(row_sums, lane_));
    const Real tau = reflector_.tau;
    const Real half = Real(0.5) * tau * tau * warp_sum(product * reflector_.v);
    const Real k_own = multiply_add(tau, product, -half * reflector_.v);
    Real k_row[kRows];
    Real k_column[kCols];
    by_row(k_own, k_row);
    by_column(k_own, k_column);
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        const int below = rank_ + 8 * a - (first_column_ + b);
        Real value = multiply_add(-v_row_[a], k_column[b], window[a][b]);
        value = multiply_add(-k_row[a], v_column_[b], value);
        store_shared_if(ring_ + columns_of_lane_[b] + below, value, below >= 0);
      }
    }
  }

 private:
  __device__ int wrapped(int place) const {
    if (place >= columns_) {
      return place - columns_;
    }
    return place < 0 ? place + columns_ : place;
  }
  __device__ int column_offset(int place) const { return wrapped(place) * kColumn; }
  /// The sum of this warp's part and the other's, which has the same bits there.
  __device__ Real sum_of_halves(Real part) const {
    *own_part_ = part;
    meet(meeting_, kHalves * 32);
    return part + *other_part_;
  }
  /// Of a vector with element i in lane i, what belongs to this lane's rows or columns.
  __device__ void by_row(Real own, Real (&values)[kRows]) const {
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      values[a] = __shfl_sync(kWholeWarp, own, rank_ + 8 * a);
    }
  }
  __device__ void by_column(Real own, Real (&values)[kCols]) const {
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      values[b] = __shfl_sync(kWholeWarp, own, first_column_ + b);
    }
  }

  Real* ring_;
  int columns_;
  Real* own_part_;
  Real* other_part_;
  int meeting_, lane_, rank_;
  int first_column_;  ///< of this lane's four
  Reflector<Real> reflector_{};
  Real v_row_[kRows] = {};  ///< of reflector_, as by_row() and by_column() have it
  Real v_column_[kCols] = {};
  int columns_of_lane_[kCols] = {};  ///< where those of the last diagonal window begin in the ring
};

}  // namespace vindex::kernels::device::chase
