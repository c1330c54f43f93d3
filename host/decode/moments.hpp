// Owns the moments of weights: counts, extremes and central sums, and their union.
#pragma once

#include "simd_level.hpp"

#include <cstdint>
#include <limits>

namespace vindex::decode {

/// Sums over decoded weights, mergeable so that a tensor's statistics come from its slices and
/// tiles. Central sums are about the mean; all float64. Nonfinite values are counted and left out
/// of everything else.
struct Moments {
  std::int64_t count = 0;  ///< finite values
  std::int64_t zeros = 0;
  std::int64_t nonfinite = 0;
  double mean = 0.0;
  double m2 = 0.0;  ///< sum (w - mean)^2
  double m3 = 0.0;
  double m4 = 0.0;
  double sum_squares = 0.0;  ///< sum w^2: frobenius_norm^2
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double max_abs() const { return count == 0 ? 0.0 : (max > -min ? max : -min); }
};

/// Moments of rows x cols floats with `stride` floats between rows. The result depends on the shape
/// alone, not on the SIMD variant used: sums run over fixed lanes. Cost about one read of the data.
Moments moments_of(const float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride);

/// Moments of the union of two disjoint sets (Chan, Golub, LeVeque 1983; Pebay 2008 for m3, m4).
Moments merge(const Moments& a, const Moments& b);

/// Derived numbers; NaN where count is 0 (std: population, sqrt(m2/count); excess kurtosis:
/// count*m4/m2^2 - 3).
double standard_deviation(const Moments& moments);
double excess_kurtosis(const Moments& moments);

/// As moments_of(), with the variant forced (tests, benchmarks). Errors: expects() on a level this
/// processor cannot run.
Moments moments_of_at(SimdLevel level, const float* values, std::int64_t rows, std::int64_t cols,
                      std::int64_t stride);

}  // namespace vindex::decode
