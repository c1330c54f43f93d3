// Owns the arithmetic of evenness: deviation, entropy, Gini coefficient, maximum.
#include "load_statistics.hpp"

#include "core/constants.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::statistics {

LoadStatistics load_statistics(std::span<const double> counts) {
  LoadStatistics statistics;
  std::vector<double> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  const double total = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  const auto count = static_cast<double>(sorted.size());
  statistics.dead_experts = std::count(sorted.begin(), sorted.end(), 0.0);
  if (total <= 0.0) {
    return statistics;
  }
  const double mean = total / count;
  double squares = 0.0;
  double entropy = 0.0;
  double ranked = 0.0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    squares += (sorted[i] - mean) * (sorted[i] - mean);
    const double share = sorted[i] / total;
    entropy -= share > 0.0 ? share * std::log(share) : 0.0;
    ranked += (2.0 * static_cast<double>(i) + 1.0 - count) * sorted[i];
  }
  statistics.cv = std::sqrt(squares / count) / mean;
  // Rounding may take equal loads an ulp beyond 1.
  statistics.entropy = sorted.size() > 1 ? std::clamp(entropy / std::log(count), 0.0, 1.0) : kNaN;
  statistics.gini = ranked / (count * total);
  statistics.max_over_mean = sorted.back() / mean;
  return statistics;
}

}  // namespace vindex::statistics
