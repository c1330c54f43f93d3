// Owns the algorithms: inversion where few are expected and rejection where many are (BTRS), chi-
// squared variables by rejection, Poisson tails by their terms.
#include "random_draws.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace vindex::statistics {

namespace {

/// ln n! less Stirling's formula.
double stirling_rest(double n) {
  constexpr std::array<double, 10> kSmall = {
      0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
      0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
      0.00925546218271273, 0.00833056343336287};
  if (n < 10.0) {
    return kSmall[static_cast<std::size_t>(n)];
  }
  const double inverse = 1.0 / (n + 1.0);
  const double square = inverse * inverse;
  return (1.0 / 12.0 - (1.0 / 360.0 - square / 1260.0) * square) * inverse;
}

/// chance <= 1/2, few expected.
std::int64_t invert_binomial(std::int64_t trials, double chance, DrawStream& draws) {
  const double odds = chance / (1.0 - chance);
  const auto n = static_cast<double>(trials);
  double left = draws.uniform();
  double term = std::exp(n * std::log1p(-chance));
  for (std::int64_t count = 0; count < trials; ++count) {
    if (left <= term) {
      return count;
    }
    left -= term;
    term *= odds * static_cast<double>(trials - count) / static_cast<double>(count + 1);
  }
  return trials;
}

/// chance <= 1/2, ten or more expected.
std::int64_t reject_binomial(std::int64_t trials, double chance, DrawStream& draws) {
  const auto n = static_cast<double>(trials);
  const double deviation = std::sqrt(n * chance * (1.0 - chance));
  const double b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * chance;
  const double middle = n * chance + 0.5;
  const double sure = 0.92 - 4.2 / b;
  const double odds = chance / (1.0 - chance);
  const double alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((n + 1.0) * chance);
  while (true) {
    const double u = draws.uniform() - 0.5;
    const double v = draws.uniform();
    const double edge = 0.5 - std::abs(u);
    const double k = std::floor((2.0 * a / edge + b) * u + middle);
    if (k < 0.0 || k > n) {
      continue;
    }
    if (edge >= 0.07 && v <= sure) {
      return static_cast<std::int64_t>(k);
    }
    const double bound = (mode + 0.5) * std::log((mode + 1.0) / (odds * (n - mode + 1.0))) +
                         (n + 1.0) * std::log((n - mode + 1.0) / (n - k + 1.0)) +
                         (k + 0.5) * std::log(odds * (n - k + 1.0) / (k + 1.0)) +
                         stirling_rest(mode) + stirling_rest(n - mode) - stirling_rest(k) -
                         stirling_rest(n - k);
    if (std::log(v * alpha / (a / (edge * edge) + b)) <= bound) {
      return static_cast<std::int64_t>(k);
    }
  }
}

}  // namespace

std::int64_t draw_binomial(std::int64_t trials, double chance, DrawStream& draws) {
  constexpr double kFew = 10.0;
  if (trials <= 0 || !(chance > 0.0)) {
    return 0;
  }
  if (chance >= 1.0) {
    return trials;
  }
  const double rarer = std::min(chance, 1.0 - chance);
  const std::int64_t count = static_cast<double>(trials) * rarer < kFew
                                 ? invert_binomial(trials, rarer, draws)
                                 : reject_binomial(trials, rarer, draws);
  return chance <= 0.5 ? count : trials - count;
}

double log_factorial(double n) {
  constexpr double kHalfLogOfTwoPi = 0.91893853320467274178;
  return kHalfLogOfTwoPi + (n + 0.5) * std::log(n + 1.0) - (n + 1.0) + stirling_rest(n);
}

double draw_chi_squared(std::int64_t freedom, DrawStream& stream) {
  if (freedom == 1) {
    const double x = stream.normal();
    return x * x;
  }
  const double d = 0.5 * static_cast<double>(freedom) - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = stream.normal();
    const double root = 1.0 + c * x;
    if (root <= 0.0) {
      continue;
    }
    const double v = root * root * root;
    const double chance = stream.uniform();
    // Their squeeze: what it takes the comparison of logarithms takes too.
    const bool is_taken = chance < 1.0 - 0.0331 * (x * x) * (x * x) ||
                          std::log(chance) < 0.5 * x * x + d - d * v + d * std::log(v);
    if (is_taken) {
      return 2.0 * d * v;
    }
  }
}

double poisson_tail(double count, double mean) {
  if (!(mean > 0.0) || !std::isfinite(mean)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double term = std::exp(-mean);
  double below = 0.0;
  for (double i = 0.0; i < count && term > 0.0; i += 1.0) {
    below += term;
    term *= mean / (i + 1.0);
  }
  // term is P(X = count), or has vanished on the way there, far above the mean.
  const double lower = below + 0.5 * term;
  double upper = 1.0 - lower;
  if (count > mean) {  // summed by itself: nothing is lost to 1
    upper = 0.5 * term;
    term *= mean / (count + 1.0);
    for (double i = count + 1.0; term > upper * 1e-17 && term > 0.0; i += 1.0) {
      upper += term;
      term *= mean / (i + 1.0);
    }
  }
  return 2.0 * std::min(lower, upper);
}

}  // namespace vindex::statistics
