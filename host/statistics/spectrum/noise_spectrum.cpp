// Owns the law's distribution function in closed form, and its inverse by Newton's method within a
// bracket. The density in theta is (2/pi) sin^2(theta) / x (noise_spectrum.hpp; Marchenko and
// Pastur 1967).
//
// With r = sqrt(g), D = 1 + r^2 - 2 r cos(theta):
//   sin^2 / D = [ (1 + r^2) + 2 r cos - (1 - r^2)^2 / D ] / (4 r^2)
//   integral of 1/D from 0 = [ theta + 2 S ] / (1 - r^2),
//   S = sum over k >= 1 of r^k sin(k theta) / k = atan2(r sin, 1 - r cos)
// so P(theta) = [ theta + r sin - (1 - r^2) (S - r sin) / r^2 ] / pi, whose rounding error is about
// eps / r: no series is needed for any aspect ratio of a matrix.
//
// Why not quadrature, as usual: the density has a root at both edges, and for g = 1 a pole, where
// rules lose their digits; mp_ks asks for the function at every eigenvalue of a spectrum.
#include "noise_spectrum.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace vindex::statistics {

namespace {

// Least root bracketing: `increasing` rises from below `target` at `low` to above at `high`.
double solve(const std::function<double(double)>& increasing,
             const std::function<double(double)>& slope, double target, double low, double high) {
  double at = 0.5 * (low + high);
  for (int step = 0; step < 100; ++step) {
    const double gap = increasing(at) - target;
    if (gap == 0.0) {
      return at;
    }
    (gap < 0.0 ? low : high) = at;
    double next = at - gap / slope(at);
    if (!(next > low && next < high)) {
      next = 0.5 * (low + high);
    }
    if (std::abs(next - at) <= 1e-15 * std::numbers::pi) {
      return next;
    }
    at = next;
  }
  return at;
}

}  // namespace

MarchenkoPastur::MarchenkoPastur(double aspect) : aspect_(aspect), root_(std::sqrt(aspect)) {
  expects(aspect > 0.0 && aspect <= 1.0, "MarchenkoPastur: aspect in (0, 1]");
}

double MarchenkoPastur::lower_edge() const { return (1.0 - root_) * (1.0 - root_); }
double MarchenkoPastur::upper_edge() const { return (1.0 + root_) * (1.0 + root_); }

double MarchenkoPastur::value_at(double angle) const {
  const double sine = std::sin(0.5 * angle);
  return lower_edge() + 4.0 * root_ * sine * sine;
}

double MarchenkoPastur::probability_below(double angle) const {
  const double sine = root_ * std::sin(angle);
  const double series = std::atan2(sine, 1.0 - root_ * std::cos(angle));
  return (angle + sine - (1.0 - aspect_) * (series - sine) / aspect_) / std::numbers::pi;
}

double MarchenkoPastur::cumulative(double x) const {
  // As probability_below, but without the sine and cosine of the angle, for the sake of mp_ks.
  const double above = x - lower_edge();
  const double below = upper_edge() - x;
  if (!(above > 0.0)) {
    return 0.0;
  }
  if (!(below > 0.0)) {
    return 1.0;
  }
  const double angle = 2.0 * std::atan2(std::sqrt(above), std::sqrt(below));
  const double sine = 0.5 * std::sqrt(above * below);
  const double series = std::atan2(sine, 0.5 * (1.0 - aspect_ + x));
  const double value =
      (angle + sine - (1.0 - aspect_) * (series - sine) / aspect_) / std::numbers::pi;
  return std::clamp(value, 0.0, 1.0);
}

double MarchenkoPastur::angle_of_probability(double probability) const {
  if (!(probability > 0.0)) {
    return 0.0;
  }
  if (probability >= 1.0) {
    return std::numbers::pi;
  }
  return solve([this](double angle) { return probability_below(angle); },
               [this](double angle) {
                 const double sine = std::sin(angle);
                 return 2.0 / std::numbers::pi * sine * sine / value_at(angle);
               },
               probability, 0.0, std::numbers::pi);
}

double MarchenkoPastur::quantile(double probability) const {
  return value_at(angle_of_probability(probability));
}

// The numbers of noise_spectrum.hpp: each mean eigenvalue is the root of its count, p F(theta)
// - theta / (2 pi) = j - 1/2 - 1/4 for the j-th from below (so kInner), found by Newton's method
// within a bracket; the values are then scaled to the exact mean of their sum, p n.
//
// share_deviation() is the central limit theorem of linear statistics in the angle: for f = sum a_m
// cos(m theta) the variance of sum f(l_i) is sum m a_m^2 / 2 for real entries (Bai and Silverstein
// 2004; the form in Chebyshev coefficients holds for every aspect ratio).
//
// Why not draws: a null is needed for every shape of a model, at once, and its error must be below
// the metrics' own digits; draws of large shapes cost minutes. docs/measuring/nulls.md holds both
// against each other.

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
  // the shape is nearly square, Tracy and Widom's scale elsewhere. Fitted to draws
  // (docs/measuring/nulls.md); exact for n = p + 1, where l_p is an exponential variable (Edelman
  // 1988).
  const double short_root = std::sqrt(static_cast<double>(p));
  const double long_root = std::sqrt(static_cast<double>(n));
  const double tau = std::cbrt(1.0 / short_root - 1.0 / long_root) / (long_root - short_root);
  return 1.0 + tau * tau / (3.1 + 2.32 * std::pow(tau, 0.75));
}

}  // namespace vindex::statistics
