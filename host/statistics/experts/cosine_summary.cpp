// The moments of the largest of N independent normals. With F its distribution function and t
// = -N ln F(largest), t is exponential, so a moment is
//
//   E f(largest) = integral over t > 0 of f(x(t)) e^-t dt,   x(t) = F^-1(exp(-t / N))
//
// taken in s = ln t by the trapezoidal rule (Trefethen and Weideman 2014 for its convergence).
//
// Why not the Gumbel limit: it approaches like 1 / ln N, a few per cent off for any N that occurs.
// Why not the density N F^(N-1) F': its peak moves and narrows with N, while in s the integrand
// hardly changes.
#include "cosine_summary.hpp"

#include "statistics/samples/quantile.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::statistics {

LargestNormal largest_normal(double count) {
  // In s = ln t the integrand falls off at both ends faster than exponentially or as exp(s), where
  // the trapezoidal rule converges exponentially.
  constexpr double kMin = -40.0, kMax = 4.0, kStep = 1.0 / 32.0;
  double weights = 0.0, sum = 0.0, squares = 0.0;
  for (double s = kMin; s <= kMax; s += kStep) {
    const double t = std::exp(s);
    const double beyond = -std::expm1(-t / count);  // chance of a number above the largest
    if (!(beyond > 0.0 && beyond < 1.0)) {
      continue;  // of no weight
    }
    const double weight = std::exp(s - t);
    const double largest = -normal_quantile(beyond);
    weights += weight;
    sum += weight * largest;
    squares += weight * largest * largest;
  }
  const double mean = sum / weights;
  return {.mean = mean, .deviation = std::sqrt(squares / weights - mean * mean)};
}

void fill_plain_nulls(std::int64_t experts, double length, CosineSummary& summary) {
  if (experts < 2) {
    return;
  }
  const auto count = static_cast<double>(experts);
  const double pairs = count * (count - 1.0) / 2.0;
  summary.null = 0.0;
  summary.null_sd = 1.0 / std::sqrt(length);
  summary.null_mean = 0.0;
  summary.null_mean_sd = summary.null_sd / std::sqrt(pairs);
  const LargestNormal largest = largest_normal(pairs);
  summary.null_most = std::min(1.0, summary.null_sd * largest.mean);
  summary.null_most_sd = summary.null_sd * largest.deviation;
}

}  // namespace vindex::statistics
