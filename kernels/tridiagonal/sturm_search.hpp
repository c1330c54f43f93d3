// Owns one thread's search for one eigenvalue of a tridiagonal matrix: leading minors of T - x I,
// and the choice of the next x. Device code of tridiagonal_values.cu.
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

namespace vindex::kernels::device::sturm {

inline constexpr int kRowsBetweenRescales = 16;
/// Distance from a value at which its bracket is narrow enough, for entries below 1/4; a unit in
/// the last place of 0.5 .. 1, where the bracket cannot become narrower than that.
inline constexpr double kTolerance = 0x1p-53;
/// Interpolation needs 6 to 9 steps. Halving needs 52 from a bracket of length 1; both are bounds
/// that no matrix reaches.
inline constexpr int kMaxInterpolations = 60;
inline constexpr int kMaxSteps = 200;

struct Row {
  double diagonal;
  double off_squared;  ///< couples it with the row before; 0 in the first
};

/// det(T - x I) = mantissa * 2^exponent, and the number of eigenvalues below x.
struct Point {
  double x, mantissa;
  int exponent, count;

  __device__ bool negative() const { return std::bit_cast<std::int64_t>(mantissa) < 0; }
};

/// Advances the minors of one shift over `count` rows.
struct Minors {
  double minor = 1.0;
  double previous = 0.0;
  int exponent = 0;
  int changes = 0;

  __device__ void advance(const Row* rows, int count, double shift) {
    for (int start = 0; start < count; start += kRowsBetweenRescales) {
      const int end = min(count, start + kRowsBetweenRescales);
#pragma unroll 4
      for (int i = start; i < end; ++i) {
        const Row row = rows[i];
        const double next = fma(row.diagonal - shift, minor, -(row.off_squared * previous));
        changes += static_cast<int>(
            (std::bit_cast<std::uint64_t>(next) ^ std::bit_cast<std::uint64_t>(minor)) >> 63U);
        previous = minor;
        minor = next;
      }
      rescale();
    }
  }

 private:
  // Two minors shrink by at most off_squared / 3 in two rows and grow by at most 3 in one.
  __device__ void rescale() {
    constexpr int kMantissaBits = 52;
    constexpr int kBias = 1023;
    const double larger = fmax(fabs(minor), fabs(previous));
    const int by = static_cast<int>(std::bit_cast<std::int64_t>(larger) >> kMantissaBits) - kBias;
    const auto factor =
        std::bit_cast<double>(static_cast<std::int64_t>(kBias - by) << kMantissaBits);
    minor *= factor;
    previous *= factor;
    exponent += by;
  }
};

/// 2^exponent, at least 2^-1000; exponent <= 0.
__device__ inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<std::int64_t>(max(exponent, -1000) + 1023) << 52);
}

/// One eigenvalue on its way: first by counts, then by interpolation between `newest` and
/// `opposite`, of which one is below it and the other above; `oldest` was replaced last.
class Search {
 public:
  __device__ void start(const Point& lower, const Point& upper, int index) {
    newest_ = lower;
    opposite_ = upper;
    index_ = index;
    choose();
  }
  __device__ bool done() const { return done_; }
  __device__ double shift() const { return newest_.x + fraction_ * (opposite_.x - newest_.x); }
  __device__ double value() const { return value_; }

  /// Takes what was found at shift().
  __device__ void advance(Point point) {
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
  __device__ void choose() {
    const double width = fabs(newest_.x - opposite_.x);
    if (width <= 2.0 * kTolerance || steps_ >= kMaxSteps) {
      finish(0.5 * newest_.x + 0.5 * opposite_.x);
      return;
    }
    const bool alone = abs(newest_.count - opposite_.count) == 1;
    if (interpolating_ && newest_.mantissa == 0.0) {
      finish(newest_.x);
      return;
    }
    interpolating_ = alone && interpolations_ < kMaxInterpolations && newest_.mantissa != 0.0 &&
                     opposite_.mantissa != 0.0 && newest_.negative() != opposite_.negative();
    fraction_ = interpolating_ ? interpolated(width) : 0.5;
  }

  __device__ void finish(double value) {
    value_ = value;
    done_ = true;
  }

  /// Where between newest (0) and opposite (1) the determinant should vanish.
  __device__ double interpolated(double width) const {
    int top = max(newest_.exponent, opposite_.exponent);
    top = has_oldest_ ? max(top, oldest_.exponent) : top;
    const double a = newest_.mantissa * power_of_two(newest_.exponent - top);
    const double b = opposite_.mantissa * power_of_two(opposite_.exponent - top);
    if (!has_oldest_) {
      const double secant = a / (a - b);
      return fmin(fmax(secant, 0.1), 0.9);
    }
    const double c = oldest_.mantissa * power_of_two(oldest_.exponent - top);
    const double xi = (newest_.x - opposite_.x) / (oldest_.x - opposite_.x);
    const double phi = (a - b) / (c - b);
    double fraction = 0.5;
    if (phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi) {
      fraction = a / (b - a) * c / (b - c) +
                 (oldest_.x - newest_.x) / (opposite_.x - newest_.x) * a / (c - a) * b / (c - b);
    }
    const double least = kTolerance / width;
    // Written so that a NaN, of equal determinants, becomes `least`.
    fraction = fraction > least ? fraction : least;
    return fmin(fraction, 1.0 - least);
  }

  Point newest_{}, opposite_{}, oldest_{};
  double fraction_ = 0.5;
  double value_ = 0.0;
  int index_ = 0;
  int steps_ = 0;
  int interpolations_ = 0;
  bool has_oldest_ = false;
  bool interpolating_ = false;
  bool done_ = false;
};

}  // namespace vindex::kernels::device::sturm
