// Owns one thread's search for one eigenvalue of a tridiagonal matrix: leading minors of T - x I,
// and the choice of the next x, in float64 or float32. Device code of tridiagonal_values.cu.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <type_traits>

namespace vindex::kernels::device::sturm {

/// What follows from the format of Real, for matrices with entries below 1/4.
template <typename Real>
struct Format;
template <>
struct Format<double> {
  using Bits = std::int64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr int kBias = 1023;
  /// Two minors shrink by at most the square of kMinOffDiagonal in two rows, times 1/3.
  static constexpr int kRowsBetweenRescales = 16;
  static constexpr double kMinOffDiagonal = 0x1p-55;
  /// Distance from a value at which its bracket is narrow enough; a unit in the last place of
  /// 0.5 .. 1, where the bracket cannot become narrower than that.
  static constexpr double kTolerance = 0x1p-53;
  static constexpr int kLeastExponent = -1000;  ///< that power_of_two() makes
};
template <>
struct Format<float> {
  using Bits = std::int32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr int kBias = 127;
  static constexpr int kRowsBetweenRescales = 4;
  static constexpr float kMinOffDiagonal = 0x1p-30F;
  static constexpr float kTolerance = 0x1p-32F;
  static constexpr int kLeastExponent = -120;
};

/// Interpolation needs 6 to 9 steps in float64. Halving needs 52 from a bracket of length 1; both
/// are bounds that no matrix reaches.
inline constexpr int kMaxInterpolations = 60;
inline constexpr int kMaxSteps = 200;

template <typename Real>
struct Row {
  Real diagonal;
  Real off_squared;  ///< couples it with the row before; 0 in the first
};

/// det(T - x I) = mantissa * 2^exponent, and the number of eigenvalues below x.
template <typename Real>
struct Point {
  Real x, mantissa;
  int exponent, count;

  __device__ bool negative() const {
    return std::bit_cast<typename Format<Real>::Bits>(mantissa) < 0;
  }
};

__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double magnitude(double value) { return fabs(value); }
__device__ inline float magnitude(float value) { return fabsf(value); }
__device__ inline double larger_of(double a, double b) { return fmax(a, b); }
__device__ inline float larger_of(float a, float b) { return fmaxf(a, b); }
__device__ inline double smaller_of(double a, double b) { return fmin(a, b); }
__device__ inline float smaller_of(float a, float b) { return fminf(a, b); }

/// 2^exponent, at least the least that is made; exponent <= 0.
template <typename Real>
__device__ Real power_of_two(int exponent) {
  using F = Format<Real>;
  return std::bit_cast<Real>(
      static_cast<typename F::Bits>(max(exponent, F::kLeastExponent) + F::kBias)
      << F::kMantissaBits);
}

/// Advances the minors of one shift over `count` rows.
template <typename Real>
struct Minors {
  using F = Format<Real>;
  using Bits = typename F::Bits;
  using Unsigned = std::make_unsigned_t<Bits>;
  Real minor = Real(1);
  Real previous = Real(0);
  int exponent = 0;
  int changes = 0;

  __device__ void advance(const Row<Real>* rows, int count, Real shift) {
    int row = 0;
    if constexpr (F::kRowsBetweenRescales == 4) {
      // Without a count that may end any four of them, which would cost as much again.
      for (; row + 4 <= count; row += 4) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          step(rows[row + i], shift);
        }
        rescale();
      }
    }
    for (; row < count; row += F::kRowsBetweenRescales) {
      const int end = min(count, row + F::kRowsBetweenRescales);
#pragma unroll 4
      for (int i = row; i < end; ++i) {
        step(rows[i], shift);
      }
      rescale();
    }
  }

 private:
  __device__ void step(const Row<Real>& row, Real shift) {
    const Real next = fused(row.diagonal - shift, minor, -(row.off_squared * previous));
    const auto signs =
        static_cast<Unsigned>(std::bit_cast<Bits>(next) ^ std::bit_cast<Bits>(minor));
    changes += static_cast<int>(signs >> (8 * sizeof(Bits) - 1));
    previous = minor;
    minor = next;
  }

  // Two minors shrink by at most off_squared / 3 in two rows and grow by at most 3 in one.
  __device__ void rescale() {
    const Real larger = larger_of(magnitude(minor), magnitude(previous));
    const int by = static_cast<int>(std::bit_cast<Bits>(larger) >> F::kMantissaBits) - F::kBias;
    const auto factor = std::bit_cast<Real>(static_cast<Bits>(F::kBias - by) << F::kMantissaBits);
    minor *= factor;
    previous *= factor;
    exponent += by;
  }
};

/// One eigenvalue on its way: first by counts, then by interpolation between `newest` and
/// `opposite`, of which one is below it and the other above; `oldest` was replaced last.
template <typename Real>
class Search {
 public:
  __device__ void start(const Point<Real>& lower, const Point<Real>& upper, int index) {
    newest_ = lower;
    opposite_ = upper;
    index_ = index;
    choose();
  }
  __device__ bool done() const { return done_; }
  __device__ Real shift() const { return newest_.x + fraction_ * (opposite_.x - newest_.x); }
  /// Between two neighbouring numbers of Real at its best, so a number of float64.
  __device__ double value() const {
    return 0.5 * static_cast<double>(lower_) + 0.5 * static_cast<double>(upper_);
  }

  /// Takes what was found at shift().
  __device__ void advance(Point<Real> point) {
    ++steps_;
    interpolations_ += interpolating_ ? 1 : 0;
    const bool newest_below = newest_.count <= index_;
    // Rounding can make neighbouring counts disagree; the bracket's invariants win.
    point.count = max(point.count, min(newest_.count, opposite_.count));
    point.count = min(point.count, max(newest_.count, opposite_.count));
    if ((point.count <= index_) == newest_below) {
      oldest_ = newest_;
    } else {
      oldest_ = opposite_;
      opposite_ = newest_;
    }
    newest_ = point;
    has_oldest_ = interpolating_;
    choose();
  }

 private:
  using F = Format<Real>;

  __device__ void choose() {
    const Real width = magnitude(newest_.x - opposite_.x);
    const Real tolerance = resolution();
    if (width <= Real(2) * tolerance || steps_ >= kMaxSteps) {
      finish(newest_.x, opposite_.x);
      return;
    }
    const bool alone = abs(newest_.count - opposite_.count) == 1;
    if (interpolating_ && newest_.mantissa == Real(0)) {
      finish(newest_.x, newest_.x);
      return;
    }
    interpolating_ = alone && interpolations_ < kMaxInterpolations && newest_.mantissa != Real(0) &&
                     opposite_.mantissa != Real(0) && newest_.negative() != opposite_.negative();
    fraction_ = interpolating_ ? interpolated(width, tolerance) : Real(0.5);
  }

  /// How near to a value its bracket can and need end. In float32 that is half a unit in the last
  /// place of x, so that a bracket ends at neighbouring numbers: small values, which a contract
  /// asks most of, are then found as exactly as their rows are.
  __device__ Real resolution() const {
    if constexpr (sizeof(Real) == sizeof(float)) {
      const float largest = fmaxf(fabsf(newest_.x), fabsf(opposite_.x));
      return fmaxf(F::kTolerance, 0x1p-24F * largest);
    } else {
      return F::kTolerance;
    }
  }

  __device__ void finish(Real lower, Real upper) {
    lower_ = lower;
    upper_ = upper;
    done_ = true;
  }

  /// Where between newest (0) and opposite (1) the determinant should vanish.
  __device__ Real interpolated(Real width, Real tolerance) const {
    int top = max(newest_.exponent, opposite_.exponent);
    top = has_oldest_ ? max(top, oldest_.exponent) : top;
    const Real a = newest_.mantissa * power_of_two<Real>(newest_.exponent - top);
    const Real b = opposite_.mantissa * power_of_two<Real>(opposite_.exponent - top);
    // A unit in the last place at least, or float32 would stand still.
    const Real least = sizeof(Real) == sizeof(float)
                           ? smaller_of(Real(2) * tolerance / width, Real(0.5))
                           : tolerance / width;
    if (!has_oldest_) {
      const Real secant = a / (a - b);
      return smaller_of(larger_of(secant, Real(0.1)), Real(0.9));
    }
    const Real c = oldest_.mantissa * power_of_two<Real>(oldest_.exponent - top);
    const Real xi = (newest_.x - opposite_.x) / (oldest_.x - opposite_.x);
    const Real phi = (a - b) / (c - b);
    Real fraction = Real(0.5);
    if (phi * phi < xi && (Real(1) - phi) * (Real(1) - phi) < Real(1) - xi) {
      fraction = a / (b - a) * c / (b - c) +
                 (oldest_.x - newest_.x) / (opposite_.x - newest_.x) * a / (c - a) * b / (c - b);
    }
    // Written so that a NaN, of equal determinants, becomes `least`.
    fraction = fraction > least ? fraction : least;
    return smaller_of(fraction, Real(1) - least);
  }

  Point<Real> newest_{}, opposite_{}, oldest_{};
  Real fraction_ = Real(0.5);
  Real lower_ = Real(0), upper_ = Real(0);  ///< where the value lies, once done
  int index_ = 0;
  int steps_ = 0;
  int interpolations_ = 0;
  bool has_oldest_ = false;
  bool interpolating_ = false;
  bool done_ = false;
};

}  // namespace vindex::kernels::device::sturm
