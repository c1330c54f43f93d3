// Owns the law of the largest of many random cosines. The square of one coordinate of a uniformly
// random direction in w dimensions is Beta(1/2, (w - 1)/2), so
//
//   P(|cosine| > c) = I_(1 - c^2)((w - 1) / 2, 1/2),   P(largest > c) = 1 - (1 - P)^count
//
// by the continued fraction of the incomplete beta function (NIST DLMF 8.17.22) and Lentz's method;
// the mean of the largest is the integral of P(largest > c) by Simpson's rule.
//
// Why not the normal approximation, variance 1 / w: the largest of 100,000 lies 4.4 deviations out,
// where the tail of a bounded number lies below the normal one, far below in few dimensions. Powers
// go through log1p and expm1, since the chances of one are below 1e-5 and a plain 1 - P would leave
// nothing of them.
#include "largest_cosine.hpp"

#include "core/constants.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::statistics {
namespace {

/// The continued fraction of the incomplete beta function, by Lentz's method (NIST DLMF 8.17.22);
/// converges fast for x below (a + 1) / (a + b + 2).
double beta_fraction(double a, double b, double x) {
  constexpr int kMaxTerms = 10'000;
  constexpr double kTiny = 1e-300, kEnough = 1e-15;
  const auto away_from_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1.0;
  double d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
  double fraction = d;
  for (int m = 1; m < kMaxTerms; ++m) {
    const double k = m;
    const double even = k * (b - k) * x / ((a + 2.0 * k - 1.0) * (a + 2.0 * k));
    d = 1.0 / away_from_zero(1.0 + even * d);
    c = away_from_zero(1.0 + even / c);
    fraction *= d * c;
    const double odd = -(a + k) * (a + b + k) * x / ((a + 2.0 * k) * (a + 2.0 * k + 1.0));
    d = 1.0 / away_from_zero(1.0 + odd * d);
    c = away_from_zero(1.0 + odd / c);
    const double step = d * c;
    fraction *= step;
    if (std::abs(step - 1.0) < kEnough) {
      break;
    }
  }
  return fraction;
}

/// I_x(a, b), given x and 1 - x so that neither loses its digits.
double regularised_beta(double a, double b, double x, double rest) {
  if (x <= 0.0 || rest <= 0.0) {
    return x <= 0.0 ? 0.0 : 1.0;
  }
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log(rest));
  return x < (a + 1.0) / (a + b + 2.0) ? front * beta_fraction(a, b, x) / a
                                       : 1.0 - front * beta_fraction(b, a, rest) / b;
}

}  // namespace

double chance_of_cosine(double c, std::int64_t width, CosineSides sides) {
  if (width < 2 || std::isnan(c)) {
    return kNaN;
  }
  const double square = std::min(1.0, c * c);
  const double both = regularised_beta((static_cast<double>(width) - 1.0) / 2.0, 0.5,
                                       (1.0 - std::abs(c)) * (1.0 + std::abs(c)), square);
  if (sides == CosineSides::kBoth) {
    return both;
  }
  return c >= 0.0 ? 0.5 * both : 1.0 - 0.5 * both;
}

double chance_of_largest_cosine(double c, std::int64_t count, std::int64_t width,
                                CosineSides sides) {
  return -std::expm1(static_cast<double>(count) * std::log1p(-chance_of_cosine(c, width, sides)));
}

double largest_cosine_quantile(double share, std::int64_t count, std::int64_t width,
                               CosineSides sides) {
  if (count < 1 || width < 2) {
    return kNaN;
  }
  const double wanted = -std::expm1(std::log(share) / static_cast<double>(count));
  double low = sides == CosineSides::kBoth ? 0.0 : -1.0;
  double high = 1.0;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2.0;
    (chance_of_cosine(middle, width, sides) > wanted ? low : high) = middle;
  }
  return (low + high) / 2.0;
}

double expected_largest_cosine(std::int64_t count, std::int64_t width, CosineSides sides) {
  if (count < 1 || width < 2) {
    return kNaN;
  }
  // The least value and the integral of P(largest > c), between where that is nearly 1 and 0.
  constexpr double kBeyond = 1e-9;
  const double low = largest_cosine_quantile(kBeyond, count, width, sides);
  const double high = largest_cosine_quantile(1.0 - kBeyond, count, width, sides);
  constexpr int kPanels = 512;  // of Simpson's rule
  const double step = (high - low) / kPanels;
  double sum = 0.0;
  for (int i = 0; i <= kPanels; ++i) {
    const double weight = i == 0 || i == kPanels ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
    sum += weight * chance_of_largest_cosine(low + step * i, count, width, sides);
  }
  return low + sum * step / 3.0;
}

}  // namespace vindex::statistics
