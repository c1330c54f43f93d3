// Owns the law's distribution function in closed form, and its inverse by Newton's method within a
// bracket. The density in theta is (2/pi) sin^2(theta) / x (marchenko_pastur.hpp; Marchenko and
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
#include <vindex/core/error.hpp>
#include <vindex/measure/marchenko_pastur.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

namespace vindex::measure {
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

}  // namespace vindex::measure
