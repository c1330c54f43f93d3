// Owns the nulls: what the metrics are for iid noise of a shape, in the limit of large matrices
// (metrics contract). A matrix of one row or column has one singular value whatever its entries, so
// its nulls are the exact values.
#include <vindex/core/error.hpp>
#include <vindex/measure/marchenko_pastur.hpp>
#include <vindex/measure/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

namespace vindex::measure {
namespace {

MetricValues single_value_nulls(std::int64_t n) {
  MetricValues nulls;
  nulls.var_at_k.fill(1.0);
  for (const Metric metric : {Metric::kStableRank, Metric::kParticipationRatio,
                              Metric::kEffectiveRank, Metric::kEffectiveRankSigma, Metric::kRank90,
                              Metric::kRank95, Metric::kRank99, Metric::kNumericalRank}) {
    nulls[metric] = 1.0;
  }
  if (n > 1) {
    nulls[Metric::kConditionNumber] = 1.0;  // square shapes have no such null
  }
  nulls[Metric::kTraceLog] = 0.0;
  nulls[Metric::kGini] = 0.0;
  return nulls;
}

// Smallest k whose share of noise reaches `share`.
double rank_null(const MarchenkoPastur& law, double p, double share) {
  double k = std::clamp(std::ceil(law.top_fraction(share) * p), 1.0, p);
  while (k > 1.0 && law.top_share((k - 1.0) / p) >= share) {
    k -= 1.0;
  }
  while (k < p && law.top_share(k / p) < share) {
    k += 1.0;
  }
  return k;
}

// ln of Roy and Vetterli's effective rank: H of sqrt(x) over its sum.
double log_effective_rank_sigma(const MarchenkoPastur& law, double p) {
  double mean = 0.0;
  double mean_log = 0.0;  // of sqrt(x) ln sqrt(x)
  for (std::size_t i = 0; i < law.nodes().size(); ++i) {
    const double sigma = std::sqrt(law.nodes()[i]);
    if (sigma > 0.0) {
      mean += law.weights()[i] * sigma;
      mean_log += law.weights()[i] * sigma * std::log(sigma);
    }
  }
  return std::log(p * mean) - mean_log / mean;
}

// 1 - 2 * area under the Lorenz curve.
double gini_null(const MarchenkoPastur& law) {
  double area = 0.0;
  for (std::size_t i = 0; i < law.nodes().size(); ++i) {
    area += law.weights()[i] * law.cumulative_share(law.nodes()[i]);
  }
  return 1.0 - 2.0 * area;
}

}  // namespace

MetricValues null_metrics(std::int64_t rows, std::int64_t cols) {
  expects(rows > 0 && cols > 0, "null_metrics: a matrix has rows and columns");
  if (std::min(rows, cols) == 1) {
    return single_value_nulls(std::max(rows, cols));
  }
  const auto p = static_cast<double>(std::min(rows, cols));
  const double g = p / static_cast<double>(std::max(rows, cols));
  const double root = std::sqrt(g);
  const MarchenkoPastur law(g);
  MetricValues nulls;
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    const auto k = static_cast<double>(kVarAtK[i]);
    nulls.var_at_k[i] = k >= p ? 1.0 : law.top_share(k / p);
  }
  if (rows != cols) {
    nulls[Metric::kConditionNumber] = (1.0 + root) / (1.0 - root);
  }
  nulls[Metric::kStableRank] = p / ((1.0 + root) * (1.0 + root));
  nulls[Metric::kParticipationRatio] = p / (1.0 + g);
  nulls[Metric::kEffectiveRank] = p * std::exp(-0.5 * g);
  nulls[Metric::kEffectiveRankSigma] = std::exp(log_effective_rank_sigma(law, p));
  nulls[Metric::kSpectralEntropy] = 1.0 - 0.5 * g / std::log(p);
  nulls[Metric::kRank90] = rank_null(law, p, 0.90);
  nulls[Metric::kRank95] = rank_null(law, p, 0.95);
  nulls[Metric::kRank99] = rank_null(law, p, 0.99);
  nulls[Metric::kNumericalRank] = p;
  const double half = std::floor(0.5 * p) / p;
  nulls[Metric::kHillAlpha] = 1.0 + half / law.mean_log_excess(half);
  // SETOL's closed form; ln(0) at g = 1 has the factor 0.
  nulls[Metric::kTraceLog] = g < 1.0 ? -1.0 - (1.0 - g) / g * std::log1p(-g) : -1.0;
  nulls[Metric::kGini] = gini_null(law);
  return nulls;
}

struct NullCache::State {
  std::mutex mutex;
  std::map<std::pair<std::int64_t, std::int64_t>, MetricValues> by_shape;  // stable addresses
};

NullCache::NullCache() : state_(std::make_unique<State>()) {}
NullCache::~NullCache() = default;

const MetricValues& NullCache::of(std::int64_t rows, std::int64_t cols) {
  const auto shape = std::minmax(rows, cols);
  const std::lock_guard lock(state_->mutex);
  auto found = state_->by_shape.find(shape);
  if (found == state_->by_shape.end()) {
    found = state_->by_shape.emplace(shape, null_metrics(rows, cols)).first;
  }
  return found->second;
}

}  // namespace vindex::measure
