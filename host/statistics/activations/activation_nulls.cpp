// Owns the nulls of activations: what independent noise in their place is like, in closed form or
// by quadrature.
#include "activation_nulls.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace vindex::statistics {

namespace {

using std::numbers::pi;

/// Values beyond which the first order in 1/n is exact to 1e-9.
constexpr double kManyValues = 1e5;

/// exp(z) K0(z) = integral of exp(-z (cosh u - 1)) over u > 0. Trapezoidal rules of analytic
/// integrands that vanish at both ends are exact to rounding, here and below.
double scaled_k0(double z) {
  const double step = 0.25 / std::sqrt(std::max(z, 1.0));
  double sum = 0.5;
  for (int i = 1;; ++i) {
    const double half = std::sinh(0.5 * i * step);  // cosh u - 1 = 2 sinh^2 (u / 2)
    const double term = std::exp(-2.0 * z * half * half);
    if (term < 1e-18) {
      return step * sum;
    }
    sum += term;
  }
}

/// Of a product a of two independent Gaussians: E exp(-s^2 a^2), and E |a| exp(-s^2 a^2), whose
/// integral over the size of one factor is that of exp(-x) / (1 + 4 s^2 x) over x > 0.
double product_transform(double s) {
  return scaled_k0(1.0 / (8.0 * s * s)) / (2.0 * std::sqrt(pi) * s);
}
double product_moment(double s) {
  constexpr double kStep = 0.25;
  double sum = 0.0;
  for (int i = -160; i <= 16; ++i) {  // x = exp(v)
    const double x = std::exp(i * kStep);
    sum += x * std::exp(-x) / (1.0 + 4.0 * s * s * x);
  }
  return 2.0 / pi * kStep * sum;
}

/// E(|a|_1 / |a|_2) of n independent products over sqrt(n): 1 / |a|_2 is 2 / sqrt(pi) times the
/// integral of exp(-s^2 |a|_2^2) over s > 0, under which the values are independent again.
double product_ratio(double n) {
  if (n > kManyValues) {
    return 2.0 / pi * (1.0 + 1.5 / n);
  }
  constexpr double kStep = 0.125;
  double sum = 0.0;
  const int first = static_cast<int>((-40.0 - 0.5 * std::log(n)) / kStep);
  for (int i = first; i <= 45 * 8; ++i) {  // s = exp(x)
    const double s = std::exp(i * kStep);
    const double others = std::exp((n - 1.0) * std::log(product_transform(s)));
    sum += s * product_moment(s) * others;
    if (others < 1e-300) {
      break;
    }
  }
  return 2.0 * std::sqrt(n / pi) * kStep * sum;
}

/// The same of Gaussians.
double gaussian_ratio(double n) {
  return n > kManyValues
             ? std::sqrt(2.0 / pi) * (1.0 + 0.25 / n)
             : std::sqrt(n / pi) * std::exp(std::lgamma(0.5 * n) - std::lgamma(0.5 * (n + 1.0)));
}

/// Mean of Hoyer's sparseness of n independent values.
double hoyer_null(ActivationLaw law, double n) {
  if (!(n > 1.0)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double ratio = law == ActivationLaw::kProduct ? product_ratio(n) : gaussian_ratio(n);
  const double root = std::sqrt(n);
  return std::clamp(root * (1.0 - ratio) / (root - 1.0), 0.0, 1.0);
}

/// Mean of the sample kurtosis of n independent values: to first order in 1/n, by the moments 9,
/// 225 and 11025 of products, 9 - 228 / n; exact for Gaussians (Fisher 1930).
double kurtosis_null(ActivationLaw law, double n) {
  return law == ActivationLaw::kProduct ? 9.0 * n / (n + 228.0 / 9.0) : 3.0 * (n - 1.0) / (n + 1.0);
}

}  // namespace

double share_near_zero(ActivationLaw law, double t) {
  if (law == ActivationLaw::kGaussian) {
    return std::erf(t / std::numbers::sqrt2);
  }
  // (2/pi) times the integral of K0 from 0 to t, with K0(u) = integral of exp(-u cosh s) over
  // s > 0, taken over u first. The integrand is even and analytic in |Im s| < pi/2, so that the
  // trapezoidal rule is exact to rounding.
  constexpr double kStep = 1.0 / 64.0;
  constexpr int kSteps = 42 * 64;
  double sum = 0.5 * -std::expm1(-t);
  for (int i = 1; i <= kSteps; ++i) {
    const double c = std::cosh(i * kStep);
    sum += -std::expm1(-t * c) / c;
  }
  return 2.0 / std::numbers::pi * kStep * sum;
}

double effective_rank_null(ActivationLaw law, std::int64_t tokens, std::int64_t neurons,
                           double gaussian) {
  if (law == ActivationLaw::kGaussian) {
    return gaussian;
  }
  // The mean of a sum of f over eigenvalues of W W^T / n rises by kappa times the mean of
  // f(1 + y + 2 sqrt(y) cos t) cos 2t over t, kappa the excess of the fourth moment (Bai and
  // Silverstein 2010, Pan and Zhou 2008; in this form Zheng 2012). For f = x ln x, what entropy is
  // of, that is y / 2 - y^2 / 6. Means that are taken away leave 1 - 1/T of kappa. The seven is the
  // next order, fitted to draws (docs/commands/activations.md).
  const auto count = static_cast<double>(tokens);
  const auto width = static_cast<double>(neurons);
  const double shorter = std::min(count - 1.0, width);
  const double longer = std::max(count - 1.0, width);
  const double excess = 6.0 * (1.0 - 1.0 / count);
  const double rank =
      gaussian * std::exp(-excess * (0.5 - shorter / longer / 6.0) / (longer + 7.0));
  return std::max(1.0, rank);
}

ActivationNulls activation_nulls(ActivationLaw law, std::int64_t tokens, std::int64_t neurons) {
  ActivationNulls nulls;
  for (std::size_t i = 0; i < kNearZero.size(); ++i) {
    nulls.sparsity[i] = share_near_zero(law, kNearZero[i]);
  }
  const auto t = static_cast<double>(tokens);
  const auto n = static_cast<double>(neurons);
  nulls.hoyer = hoyer_null(law, t * n);
  nulls.hoyer_token = hoyer_null(law, n);
  nulls.neuron_variance = (t - 1.0) / t;
  nulls.dead_neurons = n * std::pow(nulls.sparsity[0], t);
  nulls.kurtosis = kurtosis_null(law, t * n);
  return nulls;
}

}  // namespace vindex::statistics
