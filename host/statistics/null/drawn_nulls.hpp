// Owns the nulls of small shapes, drawn: below a short side of kMinComputedNull the metric of the
// mean spectrum is up to a third off the mean of the metric.
#pragma once

#include "statistics/spectrum/metric_table.hpp"

#include <cstdint>

namespace vindex::statistics {

/// Short sides from here on have nulls that are computed (nulls.cpp).
inline constexpr std::int64_t kMinComputedNull = 64;

struct DrawnNulls {
  MetricValues means;
  MetricValues errors;  ///< standard errors of the means
  std::int64_t draws = 0;
};

/// Means over drawn p x n Gaussian noise, 2 <= p < kMinComputedNull, p <= n: the same numbers on
/// every machine but for rounding, from streams that the shape is the key of. Metrics without a
/// null are NaN, theta from kMinTabulatedTheta on and condition_number of p = n too.
///
/// Draws: 65536 / p, at least 1024 and at most 16384. Cost: 20 ms (p = 2) to 0.1 s (p = 63) of one
/// core, whatever n is.
/// Source: Dumitriu and Edelman, "Matrix models for beta ensembles" (2002), for the bidiagonal
/// matrix that has the singular values of noise.
DrawnNulls drawn_nulls(std::int64_t p, std::int64_t n);

}  // namespace vindex::statistics
