// Owns what the metrics of a spectrum and those of its sign flips have in common: shares of the
// head, the median, and where the eigenvalues of noise end (metrics contract, mp_outliers).
#pragma once

#include "var_at_k.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

namespace vindex::statistics {

/// 99 % point of the Tracy-Widom law of real matrices (Johnstone 2001).
inline constexpr double kTracyWidom99 = 2.0234;

/// What the eigenvalues of p x n noise of unit variance stay below, but for 1 % of the draws.
inline double upper_outlier_threshold(double p, double n) {
  const double long_root = std::sqrt(n - 1.0);
  const double short_root = std::sqrt(p);
  const double sum = long_root + short_root;
  return sum * sum + kTracyWidom99 * sum * std::cbrt(1.0 / long_root + 1.0 / short_root);
}

/// The same from below; only where the lower edge is soft (the caller knows).
inline double lower_outlier_threshold(double p, double n) {
  const double long_root = std::sqrt(n - 1.0);
  const double short_root = std::sqrt(p);
  const double difference = long_root - short_root;
  return difference * difference -
         kTracyWidom99 * difference * std::cbrt(std::abs(1.0 / long_root - 1.0 / short_root));
}

/// Median of values in descending order, at least one.
inline double median_of_descending(std::span<const double> values) {
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

/// var_at_k as far as `lambda` (descending, the whole or its head, of p values) and k >= p decide
/// it; the rest stays as it is.
inline void set_head_shares(std::span<const double> lambda, double p, double norm_squared,
                            std::array<double, kVarAtK.size()>& var_at_k) {
  double sum = 0.0;
  std::size_t taken = 0;
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    const auto k = static_cast<std::size_t>(kVarAtK[i]);
    if (static_cast<double>(k) >= p) {
      var_at_k[i] = 1.0;
    } else if (k <= lambda.size()) {
      for (; taken < k; ++taken) {
        sum += lambda[taken];
      }
      var_at_k[i] = std::min(1.0, sum / norm_squared);  // rounding of two sums
    }
  }
}

}  // namespace vindex::statistics
