// Owns how evenly selections fall on experts.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace vindex::statistics {

/// How evenly selections fall on experts.
struct LoadStatistics {
  double cv = std::numeric_limits<double>::quiet_NaN();       ///< population deviation over mean
  double entropy = std::numeric_limits<double>::quiet_NaN();  ///< of the shares, over ln E
  double gini = std::numeric_limits<double>::quiet_NaN();
  double max_over_mean = std::numeric_limits<double>::quiet_NaN();
  std::int64_t dead_experts = 0;  ///< without a selection
};

/// Of selections per expert; all NaN where there is none, entropy NaN for one expert.
LoadStatistics load_statistics(std::span<const double> counts);

}  // namespace vindex::statistics
