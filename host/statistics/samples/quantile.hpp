// Owns quantiles: of a sample, and of the normal distribution.
#pragma once

#include <vector>

namespace vindex::statistics {

/// Linear interpolation between order statistics, numpy's default. `values` need not be sorted; NaN
/// are ignored; NaN if none is left. q in [0, 1].
double quantile(std::vector<double> values, double q);

/// Inverse of the normal law's distribution function, 0 < probability < 1, to 1e-15 relative
/// (Wichura 1988, algorithm AS 241).
double normal_quantile(double probability);

}  // namespace vindex::statistics
