// Owns one eigenvalue on its way from an isolating interval to full precision: inverse quadratic
// interpolation of the determinant, safeguarded by bisection (Chandrupatla 1997, "A new hybrid
// quadratic/bisection algorithm for finding the zero of a nonlinear function").
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace vindex::cpu {

// Bracket width at which a value is final, for a matrix scaled to norm <= 1.
inline constexpr double kBracketTolerance = std::numeric_limits<double>::epsilon();
// det(T - x I) at x, and the number of eigenvalues below x.
struct SturmPoint {
  double x = 0.0;
  double mantissa = 0.0;
  std::int64_t exponent = 0;
  std::int64_t count = 0;

  bool negative() const { return std::signbit(mantissa); }
};

// 2^exponent for |exponent| < 1000, without the generality of ldexp; far smaller ones are 2^-1000.
inline double clamped_power_of_two(std::int64_t exponent) {
  const std::int64_t bits = (std::max<std::int64_t>(exponent, -1000) + 1023) << 52;
  return __builtin_bit_cast(double, bits);
}

// One eigenvalue being interpolated: `newest` and `opposite` bracket it, `oldest` is the point
// replaced last.
struct BracketedRoot {
  SturmPoint newest, opposite, oldest;
  std::int64_t lower_count = 0;
  bool has_oldest = false;
  double fraction = 0.5;  // next shift, from newest towards opposite

  // Determinants of the three points relative to the largest.
  void relative_values(double& a, double& b, double& c) const {
    const std::int64_t top = std::max({newest.exponent, opposite.exponent, oldest.exponent});
    a = newest.mantissa * clamped_power_of_two(newest.exponent - top);
    b = opposite.mantissa * clamped_power_of_two(opposite.exponent - top);
    c = oldest.mantissa * clamped_power_of_two(oldest.exponent - top);
  }

  // Takes the value at the next shift; true once the bracket is narrow enough.
  bool advance(const SturmPoint& point) {
    if (point.negative() == newest.negative()) {
      oldest = newest;
    } else {
      oldest = opposite;
      opposite = newest;
    }
    newest = point;
    has_oldest = true;
    const double width = std::abs(newest.x - opposite.x);
    return width <= 2.0 * kBracketTolerance || newest.mantissa == 0.0;
  }

  void choose_fraction() {
    double a = 0.0;
    double b = 0.0;
    double c = 0.0;
    relative_values(a, b, c);
    if (!has_oldest) {
      fraction = std::clamp(a / (a - b), 0.1, 0.9);
      return;
    }
    const double width = newest.x - opposite.x;
    const double xi = width / (oldest.x - opposite.x);
    const double phi = (a - b) / (c - b);
    fraction = 0.5;
    if (phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi) {
      fraction = a / (b - a) * c / (b - c) +
                 (oldest.x - newest.x) / (opposite.x - newest.x) * a / (c - a) * b / (c - b);
    }
    const double least = kBracketTolerance / std::abs(width);
    // Also catches the NaN of equal values.
    if (!(fraction > least)) {
      fraction = least;
    }
    if (fraction > 1.0 - least) {
      fraction = 1.0 - least;
    }
  }

  double next_shift() const { return newest.x + fraction * (opposite.x - newest.x); }

  double value() const {
    double a = 0.0;
    double b = 0.0;
    double c = 0.0;
    relative_values(a, b, c);
    return std::abs(a) < std::abs(b) ? newest.x : opposite.x;
  }
};

}  // namespace vindex::cpu
