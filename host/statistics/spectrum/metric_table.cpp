// Owns the rows of the table of metrics, in the order of the enumeration.
#include "metric_table.hpp"

#include <limits>

namespace vindex::statistics {
namespace {

constexpr bool kInteger = true;
constexpr bool kReal = false;
constexpr bool kNull = true;
constexpr bool kNoNull = false;
constexpr bool kNeedsBulk = true;

constexpr std::array<MetricRow, kMetricCount> kMetricRows = {{
    {Metric::kVarAt64Top128, "var_at_64_top128", kReal, kNoNull,
     "sum of the 64 largest sigma^2 over the sum of the 128 largest"},
    {Metric::kSpectralNorm, "spectral_norm", kReal, kNoNull, "largest singular value"},
    {Metric::kSigmaMin, "sigma_min", kReal, kNoNull, "smallest singular value"},
    {Metric::kFrobeniusNorm, "frobenius_norm", kReal, kNoNull,
     "root of the sum of squared decoded weights"},
    {Metric::kNuclearNorm, "nuclear_norm", kReal, kNoNull, "sum of the singular values"},
    {Metric::kSigmaRatio12, "sigma_ratio_1_2", kReal, kNoNull,
     "largest over second largest singular value"},
    {Metric::kConditionNumber, "condition_number", kReal, kNull,
     "largest over smallest singular value"},
    {Metric::kStableRank, "stable_rank", kReal, kNull, "frobenius_norm^2 over spectral_norm^2"},
    {Metric::kParticipationRatio, "participation_ratio", kReal, kNull,
     "frobenius_norm^4 over the sum of sigma^4"},
    {Metric::kEffectiveRank, "effective_rank", kReal, kNull,
     "exponential of the entropy of sigma^2 over frobenius_norm^2"},
    {Metric::kEffectiveRankSigma, "effective_rank_sigma", kReal, kNull,
     "exponential of the entropy of sigma over nuclear_norm (Roy and Vetterli 2007)"},
    {Metric::kSpectralEntropy, "spectral_entropy", kReal, kNull,
     "entropy of sigma^2 over frobenius_norm^2, divided by ln min(rows, cols)"},
    {Metric::kRank90, "rank_90", kInteger, kNull, "smallest k with var_at_k >= 0.90"},
    {Metric::kRank95, "rank_95", kInteger, kNull, "smallest k with var_at_k >= 0.95"},
    {Metric::kRank99, "rank_99", kInteger, kNull, "smallest k with var_at_k >= 0.99"},
    {Metric::kNumericalRank, "numerical_rank", kInteger, kNull,
     "singular values above max(rows, cols) * 2^-23 * spectral_norm"},
    {Metric::kHillAlpha, "hill_alpha", kReal, kNull,
     "Hill estimate of the power-law exponent of sigma^2 over its upper half"},
    {Metric::kPlAlpha, "pl_alpha", kReal, kNoNull,
     "exponent of the power law fitted to sigma^2 >= pl_xmin; no usable null"},
    {Metric::kPlXmin, "pl_xmin", kReal, kNoNull, "start of the power-law tail, in sigma^2"},
    {Metric::kPlKs, "pl_ks", kReal, kNoNull, "distance of the tail from the power law"},
    {Metric::kPlTail, "pl_tail", kInteger, kNoNull, "values in the power-law tail"},
    {Metric::kMpScale, "mp_scale", kReal, kNoNull,
     "standard deviation of iid noise with the same median sigma^2"},
    {Metric::kMpOutliers, "mp_outliers", kInteger, kNoNull,
     "sigma^2 above the 99 % point of the largest one of noise"},
    {Metric::kMpLowerOutliers, "mp_lower_outliers", kInteger, kNoNull,
     "sigma^2 below the 1 % point of the smallest one of noise"},
    {Metric::kMpKs, "mp_ks", kReal, kNoNull,
     "sup distance between the law of sigma^2 and Marchenko-Pastur"},
    {Metric::kTraceLog, "trace_log", kReal, kNull,
     "mean of ln(sigma^2 min(rows, cols) / frobenius_norm^2)"},
    {Metric::kGini, "gini", kReal, kNull, "Gini coefficient of sigma^2"},
    {Metric::kCheckTrace, "check_trace", kReal, kNoNull,
     "relative difference of the sum of sigma^2 and frobenius_norm^2"},
    {Metric::kCheckGram, "check_gram", kReal, kNoNull,
     "relative difference of the sum of sigma^4 and the squared norm of the Gram matrix"},
    {Metric::kTheta, "theta", kReal, kNull,
     "angle between the matrix and its noise, degrees: 0 all noise, 90 no noise", kNeedsBulk},
    {Metric::kSignal, "signal", kReal, kNoNull,
     "share of the norm that stands above noise: sin(theta)", kNeedsBulk},
    {Metric::kRankEdge, "rank_edge", kInteger, kNoNull,
     "singular values above the edge of the noise bulk", kNeedsBulk},
    {Metric::kRankGd, "rank_gd", kInteger, kNoNull,
     "singular values above the hard threshold of Gavish and Donoho", kNeedsBulk},
}};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kMetricRows.size(); ++i) {
    if (static_cast<std::size_t>(kMetricRows[i].metric) != i) {
      return false;
    }
  }
  return true;
}
static_assert(in_order(), "one row per metric, in the order of the enumeration");

}  // namespace

std::span<const MetricRow> metric_rows() { return kMetricRows; }

MetricValues::MetricValues() {
  scalar.fill(std::numeric_limits<double>::quiet_NaN());
  var_at_k.fill(std::numeric_limits<double>::quiet_NaN());
}

}  // namespace vindex::statistics
