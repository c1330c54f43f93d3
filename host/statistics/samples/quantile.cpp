// By numpy's default rule (Hyndman and Fan 1996, definition 7).
#include "quantile.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

namespace vindex::statistics {

double quantile(std::vector<double> values, double q) {
  expects(q >= 0.0 && q <= 1.0, "quantile: q in [0, 1]");
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double part = position - static_cast<double>(below);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(below),
                   values.end());
  const double low = values[below];
  if (part == 0.0) {
    return low;
  }
  const double high =
      *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(below) + 1, values.end());
  if (low == high) {
    return low;  // also two equal infinities, whose difference is NaN
  }
  // numpy starts from the nearer end: the same bits then
  const double step = high - low;
  return part >= 0.5 ? high - step * (1.0 - part) : low + step * part;
}

// The inverse of the normal distribution function: Wichura, "Algorithm AS 241: the percentage
// points of the normal distribution", Applied Statistics 37 (1988), routine PPND16, whose
// coefficients these are.
//
// Rational functions of p - 1/2 in the middle and of sqrt(-ln p) in the tails, to 1e-15 relative.
// Why these and not an inversion of erfc by Newton's method: that takes several evaluations of a
// function which libraries round differently, and samples of 100,000 ask for half as many
// quantiles.

namespace {

/// Coefficients of a numerator and a denominator, from the highest power down.
using Powers = std::array<double, 8>;

double quotient(const Powers& above, const Powers& below, double x) {
  double top = above[0];
  double bottom = below[0];
  for (std::size_t i = 1; i < above.size(); ++i) {
    top = top * x + above[i];
    bottom = bottom * x + below[i];
  }
  return top / bottom;
}

constexpr Powers kCentreAbove = {2.5090809287301226727e+3, 3.3430575583588128105e+4,
                                 6.7265770927008700853e+4, 4.5921953931549871457e+4,
                                 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                 1.3314166789178437745e+2, 3.3871328727963666080e+0};
constexpr Powers kCentreBelow = {5.2264952788528545610e+3, 2.8729085735721942674e+4,
                                 3.9307895800092710610e+4, 2.1213794301586595867e+4,
                                 5.3941960214247511077e+3, 6.8718700749205790830e+2,
                                 4.2313330701600911252e+1, 1.0};
constexpr Powers kNearAbove = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                               2.41780725177450611770e-1, 1.27045825245236838258e+0,
                               3.64784832476320460504e+0, 5.76949722146069140550e+0,
                               4.63033784615654529590e+0, 1.42343711074968357734e+0};
constexpr Powers kNearBelow = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                               1.51986665636164571966e-2, 1.48103976427480074590e-1,
                               6.89767334985100004550e-1, 1.67638483018380384940e+0,
                               2.05319162663775882187e+0, 1.0};
constexpr Powers kFarAbove = {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                              1.24266094738807843860e-3, 2.65321895265761230930e-2,
                              2.96560571828504891230e-1, 1.78482653991729133580e+0,
                              5.46378491116411436990e+0, 6.65790464350110377720e+0};
constexpr Powers kFarBelow = {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                              1.84631831751005468180e-5,  7.86869131145613259100e-4,
                              1.48753612908506148525e-2,  1.36929880922735805310e-1,
                              5.99832206555887937690e-1,  1.0};

}  // namespace

double normal_quantile(double probability) {
  expects(probability > 0.0 && probability < 1.0, "normal_quantile: a probability inside (0, 1)");
  const double centred = probability - 0.5;
  if (std::abs(centred) <= 0.425) {
    return centred * quotient(kCentreAbove, kCentreBelow, 0.180625 - centred * centred);
  }
  const double tail = centred < 0.0 ? probability : 1.0 - probability;
  const double depth = std::sqrt(-std::log(tail));
  const double size = depth <= 5.0 ? quotient(kNearAbove, kNearBelow, depth - 1.6)
                                   : quotient(kFarAbove, kFarBelow, depth - 5.0);
  return centred < 0.0 ? -size : size;
}

}  // namespace vindex::statistics
