// Owns the continuous power-law fit of eigenvalues (metrics contract, pl_*).
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace vindex::statistics {

struct PowerLawFit {
  double alpha = std::numeric_limits<double>::quiet_NaN();
  double xmin = std::numeric_limits<double>::quiet_NaN();
  double ks = std::numeric_limits<double>::quiet_NaN();    ///< D at xmin
  double tail = std::numeric_limits<double>::quiet_NaN();  ///< values from xmin up, xmin included
};

/// Fit of the positive values of `descending` (all finite, largest first).
///
/// For every value but the largest as x_min, with m values from it up: alpha = 1 + m / sum
/// ln(x_j / x_min), D = max over j = 0..m-1 of |1 - (x_j/x_min)^(1-alpha) - j/m|. The x_min of
/// least D; of equal D the smallest x_min (the first of ascending values, as WeightWatcher).
/// Equal values are x_min candidates of their own, each with the values from its position up. A
/// candidate whose tail is all one value has no alpha and is passed over. All NaN where no
/// candidate is left.
///
/// `log_descending` holds ln of each value (the caller has them). Speed: candidates are rejected
/// after a few terms by lower bounds of D, and D itself is found by bisection with bounds from
/// monotony, so that the cost is near p log p instead of p^2; the result is that of the full
/// search. Source: Clauset, Shalizi and Newman 2009, with the one-sided rank of WeightWatcher.
PowerLawFit fit_power_law(std::span<const double> descending,
                          std::span<const double> log_descending);

}  // namespace vindex::statistics
