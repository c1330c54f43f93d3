// Owns Student's distribution, by the continued fraction of the incomplete beta function.
//
// P(|t| > x) of f degrees of freedom is I_z(f / 2, 1/2) with z = f / (f + t^2), by the continued
// fraction of DLMF 8.17.22. z and 1 - z are both formed from t^2 / f, so that neither is a
// difference: for large t the chance is z^(f/2) times something, and for small t it is 1 -
// I_(1-z)(1/2, f/2).
//
// The quantile is found by Newton's method for the logarithm of that chance over the logarithm of
// t, a curve that is nearly straight: the tails are powers.
#include "student.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vindex::statistics {

namespace {

/// I_x(a, b) for x below its mean, where the fraction converges within some tens of terms: modified
/// Lentz (Thompson and Barnett 1986).
double beta_below_mean(double a, double b, double x, double one_less_x) {
  constexpr double kTiny = 1e-300;
  constexpr double kEnough = 1e-16;
  constexpr int kMaxTerms = 2000;
  const auto held = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1.0;
  double d = 1.0 / held(1.0 - (a + b) * x / (a + 1.0));
  double fraction = d;
  for (int m = 1; m <= kMaxTerms; ++m) {
    const double twice = 2.0 * m;
    const double even = m * (b - m) * x / ((a + twice - 1.0) * (a + twice));
    d = 1.0 / held(1.0 + even * d);
    c = held(1.0 + even / c);
    fraction *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + twice) * (a + twice + 1.0));
    d = 1.0 / held(1.0 + odd * d);
    c = held(1.0 + odd / c);
    fraction *= d * c;
    if (std::abs(d * c - 1.0) <= kEnough) {
      break;
    }
  }
  const double front = std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
                       b * std::log(one_less_x);
  return std::exp(front) * fraction / a;
}

}  // namespace

double student_two_sided(double t, double freedom) {
  expects(freedom >= 1.0, "student_two_sided: at least one degree of freedom");
  if (!std::isfinite(t)) {
    return std::isnan(t) ? t : 0.0;
  }
  // Where t^2 overflows so does nothing else: the ratio is taken first.
  const double ratio = t / freedom * t;
  const double x = 1.0 / (1.0 + ratio);
  const double one_less_x = ratio / (1.0 + ratio);
  if (!(ratio > 0.0)) {
    return 1.0;
  }
  if (!(x > 0.0) || !std::isfinite(ratio)) {
    return 0.0;
  }
  const double a = 0.5 * freedom;
  const double b = 0.5;
  const double p = x < (a + 1.0) / (a + b + 2.0) ? beta_below_mean(a, b, x, one_less_x)
                                                 : 1.0 - beta_below_mean(b, a, one_less_x, x);
  return std::clamp(p, 0.0, 1.0);
}

namespace {

/// 97.5 % point for many degrees of freedom, where the fraction's front loses digits: Cornish and
/// Fisher's series to the fourth power of 1 / freedom (Abramowitz and Stegun 26.7.5).
double point_of_many(double freedom) {
  constexpr double z = 1.959963984540054;
  constexpr double z2 = z * z;
  const double n = freedom;
  return z * (1.0 + (z2 + 1.0) / (4.0 * n) + ((5.0 * z2 + 16.0) * z2 + 3.0) / (96.0 * n * n) +
              (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / (384.0 * n * n * n) +
              ((((79.0 * z2 + 776.0) * z2 + 1482.0) * z2 - 1920.0) * z2 - 945.0) /
                  (92160.0 * n * n * n * n));
}

}  // namespace

double student_quantile(double freedom) {
  expects(freedom >= 1.0, "student_quantile: at least one degree of freedom");
  constexpr double kBothTails = 0.05;
  constexpr double kMany = 500.0;
  if (freedom >= kMany) {
    return point_of_many(freedom);
  }
  // The density of T at 0.
  const double peak = std::exp(std::lgamma(0.5 * (freedom + 1.0)) - std::lgamma(0.5 * freedom)) /
                      std::sqrt(freedom * std::numbers::pi);
  double t = 2.0;
  for (int step = 0; step < 40; ++step) {
    const double chance = student_two_sided(t, freedom);
    const double density = peak * std::pow(1.0 + t * t / freedom, -0.5 * (freedom + 1.0));
    const double slope = -2.0 * density * t / chance;
    const double change = std::log(kBothTails / chance) / slope;
    t *= std::exp(change);
    if (std::abs(change) < 1e-13) {
      break;
    }
  }
  return t;
}

}  // namespace vindex::statistics
