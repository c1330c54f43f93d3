// Owns what two warps do to one 32 x 32 window in a chase whose sweeps wait by flags: the
// operations of chase_window.hpp, element by element in the same order and so to the same bits, in
// fewer instructions, since without a common barrier issuing them is what binds.
//
// Addresses. In the ring element (i, j) of a window is at 63 j + i behind its origin where it lies
// below the diagonal, and mirrored, at 63 i + j, above: 62 (i - j) less. So the address of either
// is the smaller of two numbers of the lane, of which one moves by a constant from element to
// element, and a constant. That holds where the window does not reach over the end of the ring,
// which one in a ring's blocks does; there every column is looked up.
//
// The two warps meet nowhere but in sum_of_halves(): one may be a meeting ahead while the other
// still reads what was passed at the last, so parts lie in one of two places by turns. It cannot be
// two ahead.
#pragma once

#include "chase_window.hpp"

#include <utility>

namespace vindex::kernels::device::chase {

/// Room for what the two warps of a window pass to each other.
inline constexpr int kApartScratch = 2 * kScratch;

/// One warp's view of the ring, the half `half` of every window. `meeting`: the barrier of the two.
template <typename Real>
class ApartWindows {
 public:
  __device__ ApartWindows(Real* ring, int ring_blocks, Real* scratch, int half, int meeting,
                          int lane)
      : ring_(ring),
        begin_(static_cast<int>(shared_address(ring))),
        columns_(ring_blocks * kSize),
        own_part_(scratch + half * kSize + lane),
        to_other_(half == 0 ? kSize : -kSize),
        meeting_(meeting),
        lane_(lane),
        rank_(lane & 7),
        first_column_((lane & 24) + half * kCols) {}

  /// Element `below` rows under the diagonal of the column at `place`.
  __device__ Real& at(int place, int below) {
    return ring_[(place < 0 ? place + columns_ : in_ring(place)) * kColumn + below];
  }

  /// Clears the column at `place` below its subdiagonal: a sweep's first reflector.
  __device__ Real start(int place) {
    const Reflector<Real> made = reflect(at(place, 1 + lane_), Real{0}, lane_);
    v_own_ = made.v;
    tau_ = made.tau;
    by_row(v_own_, v_row_);
    by_column(v_own_, v_column_);
    return made.beta;
  }

  /// B := H' B H as Windows::move_bulge() has it, for the columns of the last diagonal window, of
  /// which the first is at `place`.
  __device__ void move_bulge(int place) {
    Real window[kRows][kCols];
    for_elements([&](auto a, auto b) {
      load_shared<(kSize + 8 * a) * kBytes>(window[a][b], columns_of_lane_[b]);
    });
    const Real first = at(place, kSize + lane_);
    const Real w_own = tau_ * sum_of_halves(sum_rows(products_by_row(window), lane_));
    const Reflector<Real> next = reflect(first - w_own, w_own, lane_);
    v_own_ = next.v;
    tau_ = next.tau;
    by_row(v_own_, v_row_);
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
      const Real sum = __shfl_sync(kWholeWarp, column_sum, 2 * b, 8);
      z[b] = tau_ * multiply_add(-next.overlap, v_column_[b], sum);
    }
    for_elements([&](auto a, auto b) {
      Real value = multiply_add(-w[a], v_column_[b], window[a][b]);
      value = multiply_add(-v_row_[a], z[b], value);
      if (b == 0 && first_column_ == 0) {
        value = a == 0 && rank_ == 0 ? next.beta : Real{0};
      }
      store_shared<(kSize + 8 * a) * kBytes>(value, columns_of_lane_[b]);
    });
    by_column(v_own_, v_column_);
  }

  /// D := H D H as Windows::apply_both_sides() has it, on the diagonal window at `place`.
  __device__ void apply_both_sides(int place) {
    Real window[kRows][kCols];
    const int first = in_ring(place);
    if (first + kSize <= columns_) {
      load_whole(first, window);
    } else {
      load_wrapped(first, window);
    }
    const Real product = sum_of_halves(sum_rows(products_by_row(window), lane_));
    const Real half = Real(0.5) * tau_ * tau_ * warp_sum(product * v_own_);
    const Real k_own = multiply_add(tau_, product, -half * v_own_);
    Real k_row[kRows];
    Real k_column[kCols];
    by_row(k_own, k_row);
    by_column(k_own, k_column);
    for_elements([&](auto a, auto b) {
      Real value = multiply_add(-v_row_[a], k_column[b], window[a][b]);
      value = multiply_add(-k_row[a], v_column_[b], value);
      store_shared_if<8 * a * kBytes>(value, columns_of_lane_[b],
                                      rank_ - first_column_ >= b - 8 * a);
    });
  }

 private:
  static constexpr int kBytes = static_cast<int>(sizeof(Real));
  template <int I>
  using Constant = std::integral_constant<int, I>;

  /// use(a, b) for every element of a lane, a and b being constants.
  template <typename Use>
  __device__ static void for_elements(const Use& use) {
    for_each(use, std::make_integer_sequence<int, kRows * kCols>());
  }
  template <typename Use, int... I>
  __device__ static void for_each(const Use& use, std::integer_sequence<int, I...> /*all*/) {
    (use(Constant<I % kRows>{}, Constant<I / kRows>{}), ...);
  }

  /// The window of which the first column is at `first` of the ring, which does not reach over the
  /// ring's end.
  __device__ void load_whole(int first, Real (&window)[kRows][kCols]) {
    constexpr int kNext = (kColumn - 1) * kBytes;  // the same row of the next column
    const int origin = begin_ + first * kColumn * kBytes;
    const int lower = origin + kNext * first_column_ + kBytes * rank_;
    const int upper = origin + kNext * rank_ + kBytes * first_column_;
    for_elements([&](auto a, auto b) {
      constexpr int kLower = 8 * a * kBytes + kNext * b;
      constexpr int kUpper = kNext * 8 * a + b * kBytes;
      load_shared<kUpper>(window[a][b], min(upper, lower + (kLower - kUpper)));
    });
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      columns_of_lane_[b] = lower + kNext * b;
    }
  }
  __device__ void load_wrapped(int first, Real (&window)[kRows][kCols]) {
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
      const int column = first_column_ + b;
      const int diagonal = in_ring(first + column) * kColumn;
      columns_of_lane_[b] = begin_ + (diagonal + rank_ - column) * kBytes;
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        const int row = rank_ + 8 * a;
        window[a][b] = ring_[row >= column ? diagonal + row - column
                                           : in_ring(first + row) * kColumn + column - row];
      }
    }
  }

  __device__ Real (&products_by_row(const Real (&window)[kRows][kCols]))[kRows] {
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      row_sums_[a] = Real{0};
    }
#pragma unroll
    for (int b = 0; b < kCols; ++b) {
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        row_sums_[a] = multiply_add(window[a][b], v_column_[b], row_sums_[a]);
      }
    }
    return row_sums_;
  }

  __device__ int in_ring(int place) const { return place >= columns_ ? place - columns_ : place; }
  /// The sum of this warp's part and the other's, which has the same bits there.
  __device__ Real sum_of_halves(Real part) {
    Real* const own = own_part_ + turn_;
    *own = part;
    meet(meeting_, kHalves * 32);
    turn_ ^= kScratch;
    return part + own[to_other_];
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
  int begin_;  ///< of the ring, as the address in shared memory
  int columns_;
  Real* own_part_;
  int to_other_;  ///< from own_part_ to where the other warp leaves its
  int meeting_, lane_, rank_;
  int first_column_;  ///< of this lane's four
  int turn_ = 0;      ///< where the parts of the next meeting lie in the scratch
  Real v_own_{}, tau_{};
  Real v_row_[kRows] = {};  ///< of the reflector, as by_row() and by_column() have it
  Real v_column_[kCols] = {};
  Real row_sums_[kRows] = {};
  /// Addresses of row `rank_` of this lane's columns of the last diagonal window, as if columns
  /// began above their diagonal.
  int columns_of_lane_[kCols] = {};
};

}  // namespace vindex::kernels::device::chase
