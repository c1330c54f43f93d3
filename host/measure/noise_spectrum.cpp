// Owns the numbers of noise_spectrum.hpp: each mean eigenvalue is the root of its count, p F(theta)
// - theta / (2 pi) = j - 1/2 - 1/4 for the j-th from below (so kInner), found by Newton's method
// within a bracket; the values are then scaled to the exact mean of their sum, p n.
//
// share_deviation() is the central limit theorem of linear statistics in the angle: for f = sum a_m
// cos(m theta) the variance of sum f(l_i) is sum m a_m^2 / 2 for real entries (Bai and Silverstein
// 2004; the form in Chebyshev coefficients holds for every aspect ratio).
//
// Why not draws: a null is needed for every shape of a model, at once, and its error must be below
// the metrics' own digits; draws of large shapes cost minutes. docs/nulls.md holds both against
// each other.
#include "noise_spectrum.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace vindex::measure {
namespace {

// The outermost value lies at the mean of the Tracy-Widom law of real matrices, -1.2065336, and not
// at the Airy function's -1.115: in counts, 2/(3 pi) 1.2065336^(3/2) in place of 1/4.
constexpr double kOutermost = 0.2812341;
constexpr double kInner = 0.75;

/// Mean number of eigenvalues below an angle, less 1/4.
class MeanCount {
 public:
  MeanCount(const MarchenkoPastur& law, double p) : law_(law), p_(p) {}
  /// Where it is `count`, at or above `low`.
  double angle_of(double count, double low) const {
    double high = std::numbers::pi;
    double at = low;
    for (int step = 0; step < 100; ++step) {
      const double gap = p_ * law_.probability_below(at) - at / (2.0 * std::numbers::pi) - count;
      (gap < 0.0 ? low : high) = at;
      const double sine = std::sin(at);
      const double slope = p_ * 2.0 / std::numbers::pi * sine * sine / law_.value_at(at) -
                           1.0 / (2.0 * std::numbers::pi);
      double next = at - gap / slope;
      if (!(next > low && next < high)) {
        next = 0.5 * (low + high);
      }
      if (std::abs(next - at) <= 1e-13 * std::numbers::pi) {
        return next;
      }
      at = next;
    }
    return at;
  }

 private:
  const MarchenkoPastur& law_;
  double p_;
};

}  // namespace

std::vector<double> mean_noise_spectrum(const MarchenkoPastur& law, std::int64_t p,
                                        std::int64_t n) {
  expects(p >= 2 && n >= p, "mean_noise_spectrum: at least two eigenvalues");
  const auto count = static_cast<double>(p);
  const MeanCount below(law, count);
  std::vector<double> values(static_cast<std::size_t>(p));
  double angle = 0.0;
  double sum = 0.0;
  for (std::int64_t j = 1; j <= p; ++j) {
    const double target = j == 1   ? kOutermost
                          : j == p ? count - 0.5 - kOutermost
                                   : static_cast<double>(j) - kInner;
    angle = below.angle_of(target, angle);
    const double value = law.value_at(angle);
    values[static_cast<std::size_t>(p - j)] = value;
    sum += value;
  }
  // The places are right to a share of a spacing; their sum is known exactly, so that shares of it,
  // which most metrics are, gain most.
  const double scale = count * static_cast<double>(n) / sum;
  for (double& value : values) {
    value *= scale;
  }
  return values;
}

double share_deviation(const MarchenkoPastur& law, std::int64_t p, double x, double share) {
  constexpr int kTerms = 400;  // they fall as the third power
  const double root = std::sqrt(law.aspect());
  const double at = std::acos(std::clamp((1.0 + law.aspect() - x) / (2.0 * root), -1.0, 1.0));
  double variance = 0.0;
  for (int m = 1; m <= kTerms; ++m) {
    // Integral of (cos(at) - cos(theta)) cos(m theta) from `at` to pi.
    double integral = 0.0;
    if (m == 1) {
      integral = -0.5 * (std::numbers::pi - at) - 0.25 * std::sin(2.0 * at);
    } else {
      integral = 0.5 * (std::sin((m - 1) * at) / (m - 1) + std::sin((m + 1) * at) / (m + 1)) -
                 std::cos(at) * std::sin(m * at) / m;
    }
    const double coefficient =
        2.0 * root * (2.0 / std::numbers::pi * integral + (m == 1 ? share : 0.0));
    variance += 0.5 * m * coefficient * coefficient;
  }
  return std::sqrt(variance) / static_cast<double>(p);
}

double smallest_value_factor(std::int64_t p, std::int64_t n) {
  expects(p < n, "smallest_value_factor: a square matrix has no such mean");
  // In units of its distance from 0, the smallest value scatters by tau: (2 / (n - p))^(2/3) where
  // the shape is nearly square, Tracy and Widom's scale elsewhere. Fitted to draws (docs/nulls.md);
  // exact for n = p + 1, where l_p is an exponential variable (Edelman 1988).
  const double short_root = std::sqrt(static_cast<double>(p));
  const double long_root = std::sqrt(static_cast<double>(n));
  const double tau = std::cbrt(1.0 / short_root - 1.0 / long_root) / (long_root - short_root);
  return 1.0 + tau * tau / (3.1 + 2.32 * std::pow(tau, 0.75));
}

}  // namespace vindex::measure
