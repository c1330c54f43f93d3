// Owns the table of scalar metrics (metrics contract, version 2): names, types, nulls; and the
// values of one matrix. Results, exports and docs iterate over it.
#pragma once

#include "var_at_k.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vindex::statistics {

/// Every scalar metric; var_at_k is separate.
enum class Metric : std::uint8_t {
  kVarAt64Top128,
  kSpectralNorm,
  kSigmaMin,
  kFrobeniusNorm,
  kNuclearNorm,
  kSigmaRatio12,
  kConditionNumber,
  kStableRank,
  kParticipationRatio,
  kEffectiveRank,
  kEffectiveRankSigma,
  kSpectralEntropy,
  kRank90,
  kRank95,
  kRank99,
  kNumericalRank,
  kHillAlpha,
  kPlAlpha,
  kPlXmin,
  kPlKs,
  kPlTail,
  kMpScale,
  kMpOutliers,
  kMpLowerOutliers,
  kMpKs,
  kTraceLog,
  kGini,
  kCheckTrace,
  kCheckGram,
  kTheta,
  kSignal,
  kRankEdge,
  kRankGd,
  kCount
};
inline constexpr std::size_t kMetricCount = static_cast<std::size_t>(Metric::kCount);

struct MetricRow {
  Metric metric;
  std::string_view name;       ///< dataset name
  bool is_integer;             ///< int32 in the file (NaN is stored as -1)
  bool has_null;               ///< a `<name>_null` column exists
  std::string_view long_name;  ///< one line for the file's attribute
  bool needs_bulk = false;     ///< theta and what goes with it: only spectra with a noise bulk
};
/// All rows, in the order of the enumeration.
std::span<const MetricRow> metric_rows();

/// Values of one matrix. A value that is not defined is NaN; integers are exact in double.
struct MetricValues {
  std::array<double, kMetricCount> scalar;
  std::array<double, kVarAtK.size()> var_at_k;
  MetricValues();  ///< all NaN
  double& operator[](Metric m) { return scalar[static_cast<std::size_t>(m)]; }
  double operator[](Metric m) const { return scalar[static_cast<std::size_t>(m)]; }
};

}  // namespace vindex::statistics
