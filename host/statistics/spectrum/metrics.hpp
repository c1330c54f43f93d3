// Owns the metrics (metrics contract, version 2): one definition each, computed on the host from
// singular values and moments, and the nulls beside them. The table below is what results, exports
// and docs iterate over.
#pragma once

#include "var_at_k.hpp"

#include "backend/backend.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// Metrics of a rows x cols matrix from its report; all NaN unless its status is measured.
///
/// Adds to `reason` (after "; " where it holds a text already) why values are NaN: "zero matrix"
/// (norms, sigma, ranks are 0), "one singular value", "zero singular value" and "sigma_min within
/// its error" (condition_number, trace_log), "tail not reliable", "fast mode: no tail", "no tail to
/// fit" (hill_alpha, pl_*: sigma_error decides which values are a tail);
/// "exact low rank: theta is 90" where it is that for want of any noise.
/// Fast mode gives spectral_norm, frobenius_norm, sigma_ratio_1_2, stable_rank, the checks and
/// var_at_k as far as the 64 values or k >= p decide it; all else is NaN, for a short side below 64
/// too.
///
/// Cost: 0.2 ms for p = 2048, 0.7 ms for p = 7168 on one core (noise, EPYC at 2.6 GHz).
/// Errors: expects() on a report whose sigma has not min(rows, cols) values (fast: 64 at most).
MetricValues derive_metrics(std::int64_t rows, std::int64_t cols, const MatrixReport& report,
                            SpectrumMode mode, std::string& reason);

/// Means over iid Gaussian noise of that shape (docs/measuring/nulls.md), NaN without a null and
/// for condition_number of a square shape. One row or column: the exact values of any such matrix;
/// a short side below 64: means of draws, the same in every run. Pure; up to 0.1 s for p < 64 (once
/// in a process), 0.2 ms for p = 96, 1.3 ms for 2048, 5 ms for 7168 on one core; cached by
/// NullCache.
MetricValues null_metrics(std::int64_t rows, std::int64_t cols);

/// Standard errors of those nulls of a short side from 2 to 63 that are means of draws, 0 of the
/// exact ones; NaN without a null, of theta where it is tabulated, and for other shapes, whose
/// nulls are computed (within 0.5 %).
MetricValues null_errors(std::int64_t rows, std::int64_t cols);

/// Thread-safe cache of null_metrics by shape (order of the two sides does not matter).
class NullCache {
 public:
  NullCache();
  ~NullCache();
  const MetricValues& of(std::int64_t rows, std::int64_t cols);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Linear interpolation between order statistics, numpy's default. `values` need not be sorted; NaN
/// are ignored; NaN if none is left. q in [0, 1].
double quantile(std::vector<double> values, double q);

}  // namespace vindex::statistics
