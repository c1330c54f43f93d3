// Owns the nulls: what the metrics are on average for iid noise of a shape (metrics contract), at
// finite size: the metrics of the mean spectrum (noise_spectrum.hpp), and better where the mean of
// a metric is known exactly or is far from the metric of the mean. A matrix of one row or column
// has one singular value whatever its entries, so its nulls are the exact values. Below a short
// side of 64 nulls are drawn (drawn_nulls.hpp), but for those whose mean is known.
//
// What has an exact mean for p x n standard normals W, G = W W^T, F2 = tr G:
//
//   trace_log             sum over i < p of psi((n - i) / 2) / p - psi(p n / 2) + ln p
//   participation_ratio   (p n + 2) / (p + n + 1)
//
// The first as det G is a product of independent chi-squared variables of n, n - 1, ... degrees
// (Bartlett 1933), F2 one of p n, and the mean of ln chi^2_k is psi(k / 2) + ln 2. The second as E
// tr(G^2) is p n (p + n + 1), E F2^2 is p n (p n + 2), and direction and length of normal noise are
// independent, so that the mean of the ratio is the ratio of the means.
//
// psi by its recurrence and asymptotic series (DLMF 5.5.2, 5.11.2). Why metrics of a mean spectrum
// otherwise, and not means of metrics: the spectrum of noise hardly scatters at these sizes, so
// that the two agree to the digits in docs/measuring/nulls.md, and one spectrum makes all nulls
// agree with each other.
#include "nulls.hpp"

#include "drawn_nulls.hpp"

#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "statistics/spectrum/noise_spectrum.hpp"
#include "statistics/spectrum/spectral_theta.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <span>
#include <string>
#include <utility>

namespace vindex::statistics {
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

// d/dx ln Gamma(x) for x >= 1/2: recurrence, then Stirling's series.
double digamma(double x) {
  double value = 0.0;
  for (; x < 12.0; x += 1.0) {
    value -= 1.0 / x;
  }
  const double inverse = 1.0 / (x * x);
  return value + std::log(x) - 0.5 / x -
         inverse *
             (1.0 / 12.0 - inverse * (1.0 / 120.0 - inverse * (1.0 / 252.0 - inverse / 240.0)));
}

// Exact: the determinant of Gaussian noise is a product of independent chi-squared variables, and
// F2 is one of p n degrees of freedom.
double trace_log_null(std::int64_t p, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < p; ++i) {
    sum += digamma(0.5 * static_cast<double>(n - i));
  }
  const auto count = static_cast<double>(p);
  return sum / count - digamma(0.5 * count * static_cast<double>(n)) + std::log(count);
}

// Mean of the smallest k whose share reaches `share`: the sum over k of the probability that k
// values do not reach it. Shares scatter by about a third of a value's own.
double rank_null(const MarchenkoPastur& law, std::span<const double> lambda, double n,
                 double share) {
  const auto p = static_cast<std::int64_t>(lambda.size());
  const double total = static_cast<double>(p) * n;
  std::vector<double> shares = {0.0};
  for (const double value : lambda) {
    shares.push_back(shares.back() + value / total);
  }
  const auto crossing = std::lower_bound(shares.begin(), shares.end() - 1, share);
  const double x = lambda[static_cast<std::size_t>(crossing - shares.begin() - 1)] / n;
  const double deviation = share_deviation(law, p, x, share);
  double mean = 0.0;
  for (std::int64_t k = 0; k < p; ++k) {
    const double missing = (share - shares[static_cast<std::size_t>(k)]) / deviation;
    if (missing < -8.0) {
      break;
    }
    mean += k == 0 ? 1.0 : 0.5 * std::erfc(-missing / std::numbers::sqrt2);
  }
  return mean;
}

/// drawn_nulls(), once for a shape and process: not every caller has a NullCache, and draws cost
/// what a hundred computed nulls do. Thread-safe; a shape waits for its own draws alone.
const DrawnNulls& kept_drawn_nulls(std::int64_t p, std::int64_t n) {
  struct Entry {
    std::once_flag once;
    DrawnNulls values;
  };
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, std::int64_t>, Entry> by_shape;  // stable addresses
  Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex);
    entry = &by_shape[{p, n}];
  }
  std::call_once(entry->once, [&] { entry->values = drawn_nulls(p, n); });
  return entry->values;
}

}  // namespace

MetricValues null_metrics(std::int64_t rows, std::int64_t cols) {
  expects(rows > 0 && cols > 0, "null_metrics: a matrix has rows and columns");
  const std::int64_t p = std::min(rows, cols);
  const std::int64_t n = std::max(rows, cols);
  if (p == 1) {
    return single_value_nulls(n);
  }
  if (p < kMinComputedNull) {
    MetricValues drawn = kept_drawn_nulls(p, n).means;
    drawn[Metric::kTraceLog] = trace_log_null(p, n);
    drawn[Metric::kNumericalRank] = static_cast<double>(p);
    if (p >= kMinTabulatedTheta) {
      drawn[Metric::kTheta] = theta_null(p, n);
    }
    return drawn;
  }
  const auto short_side = static_cast<double>(p);
  const auto long_side = static_cast<double>(n);
  const MarchenkoPastur law(short_side / long_side);
  const std::vector<double> lambda = mean_noise_spectrum(law, p, n);
  MatrixReport mean;
  mean.status = MatrixStatus::kMeasured;
  mean.moments.sum_squares = short_side * long_side;
  for (const double value : lambda) {
    mean.sigma.push_back(std::sqrt(value));
  }
  std::string reason;
  const MetricValues of_mean = derive_metrics(p, n, mean, SpectrumMode::kDefault, reason);

  MetricValues nulls;
  nulls.var_at_k = of_mean.var_at_k;
  for (const MetricRow& row : metric_rows()) {
    if (row.has_null) {
      nulls[row.metric] = of_mean[row.metric];
    }
  }
  nulls[Metric::kStableRank] = 1.0 / nulls.var_at_k[0];
  // The mean of sum l^2 / F2^2 is (p + n + 1)/(p n + 2) exactly.
  nulls[Metric::kParticipationRatio] =
      (short_side * long_side + 2.0) / (short_side + long_side + 1.0);
  nulls[Metric::kTraceLog] = trace_log_null(p, n);
  nulls[Metric::kRank90] = rank_null(law, lambda, long_side, 0.90);
  nulls[Metric::kRank95] = rank_null(law, lambda, long_side, 0.95);
  nulls[Metric::kRank99] = rank_null(law, lambda, long_side, 0.99);
  nulls[Metric::kNumericalRank] = short_side;
  nulls[Metric::kTheta] = theta_null(p, n);  // of the mean spectrum it is 0
  nulls[Metric::kConditionNumber] = std::numeric_limits<double>::quiet_NaN();
  if (p < n) {  // the mean is infinite where they are equal
    nulls[Metric::kConditionNumber] =
        mean.sigma.front() / mean.sigma.back() * smallest_value_factor(p, n);
  }
  return nulls;
}

MetricValues null_errors(std::int64_t rows, std::int64_t cols) {
  expects(rows > 0 && cols > 0, "null_errors: a matrix has rows and columns");
  const std::int64_t p = std::min(rows, cols);
  const std::int64_t n = std::max(rows, cols);
  if (p < 2 || p >= kMinComputedNull) {
    return {};
  }
  MetricValues errors = kept_drawn_nulls(p, n).errors;
  errors[Metric::kTraceLog] = 0.0;
  errors[Metric::kNumericalRank] = 0.0;
  if (p >= kMinTabulatedTheta) {
    errors[Metric::kTheta] = std::numeric_limits<double>::quiet_NaN();
  }
  return errors;
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

}  // namespace vindex::statistics
