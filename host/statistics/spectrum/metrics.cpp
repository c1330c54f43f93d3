// Owns derive_metrics: the contract's definitions, one function per family of metrics. F2 is always
// the sum of squares of the decoded weights, never the sum of the computed eigenvalues: so rounding
// may take a metric an ulp beyond its range, which one function puts right.
//
// Formulas stand in docs/measuring/metrics.md, with their papers; here, only what is not the
// formula itself: sums are taken over ln l = 2 ln s, since s^2 may underflow where s does not, and
// entropies as (sum l ln F2 - sum l ln l) / F2, one logarithm for each value in place of one for
// each share.
#include "metrics.hpp"

#include "metric_table.hpp"
#include "noise_edge.hpp"
#include "noise_spectrum.hpp"
#include "power_law.hpp"
#include "spectral_theta.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace vindex::statistics {
namespace {

constexpr double kFloatEpsilon = 0x1p-23;
// Nearer to square than this the smallest eigenvalue of noise is no Tracy-Widom variable.
constexpr double kHardEdge = 0.95;

struct Spectrum {
  double p, n, norm_squared;
  std::span<const double> sigma;  // descending
  std::vector<double> lambda;     // sigma^2
  std::vector<double> log;        // ln lambda, whole spectrum only
  double min_known = 0.0;         // sigma^2 at or below it is known by that bound alone
};

// x / y where that is a number.
double ratio(double x, double y) { return y > 0.0 && std::isfinite(x / y) ? x / y : kNaN; }

void add_reason_once(std::string& reason, std::string_view text) {
  if (reason.find(text) != std::string::npos) {
    return;
  }
  if (!reason.empty()) {
    reason += "; ";
  }
  reason += text;
}

// A certified bound may be sharper than the rounding of the value it bounds.
void keep_within(const SpectrumBounds& bounds, MetricValues& values) {
  const auto keep = [](double lower, double upper, double& value) {
    if (lower <= upper) {  // NaN where nothing is certified
      value = std::clamp(value, lower, upper);
    }
  };
  for (std::size_t i = 0; i < kVarAtK.size() && i < bounds.var_at_k_lower.size(); ++i) {
    keep(bounds.var_at_k_lower[i], bounds.var_at_k_upper[i], values.var_at_k[i]);
  }
  keep(bounds.stable_rank_lower, bounds.stable_rank_upper, values[Metric::kStableRank]);
}

// The ranges that hold for any spectrum, exactly.
void keep_ranges(double p, MetricValues& values) {
  const auto keep = [&](double least, double most, std::initializer_list<Metric> metrics) {
    for (const Metric metric : metrics) {
      values[metric] = std::isnan(values[metric]) ? kNaN : std::clamp(values[metric], least, most);
    }
  };
  constexpr double kAny = std::numeric_limits<double>::max();
  keep(1.0, p, {Metric::kEffectiveRank, Metric::kEffectiveRankSigma});
  keep(0.0, 1.0, {Metric::kSpectralEntropy, Metric::kGini, Metric::kVarAt64Top128});
  keep(1.0, kAny,
       {Metric::kStableRank, Metric::kParticipationRatio, Metric::kSigmaRatio12,
        Metric::kConditionNumber});
  keep(-kAny, 0.0, {Metric::kTraceLog});
}

void set_zero_matrix(MetricValues& values) {
  for (const Metric metric :
       {Metric::kSpectralNorm, Metric::kSigmaMin, Metric::kFrobeniusNorm, Metric::kNuclearNorm,
        Metric::kRank90, Metric::kRank95, Metric::kRank99, Metric::kNumericalRank, Metric::kMpScale,
        Metric::kMpOutliers, Metric::kMpLowerOutliers}) {
    values[metric] = 0.0;
  }
}

// What the largest values decide: every mode has these.
void set_head(const Spectrum& spectrum, MetricValues& values) {
  values[Metric::kSpectralNorm] = spectrum.sigma[0];
  values[Metric::kStableRank] = ratio(spectrum.norm_squared, spectrum.lambda[0]);
  if (spectrum.sigma.size() > 1) {
    values[Metric::kSigmaRatio12] = ratio(spectrum.sigma[0], spectrum.sigma[1]);
  }
  set_head_shares(spectrum.lambda, spectrum.p, spectrum.norm_squared, values.var_at_k);
  if (spectrum.p <= 64.0) {
    values[Metric::kVarAt64Top128] = 1.0;
  }
}

void set_ranks(const Spectrum& spectrum, MetricValues& values) {
  double sum = 0.0;
  values[Metric::kRank90] = values[Metric::kRank95] = values[Metric::kRank99] = spectrum.p;
  bool below90 = true;
  bool below95 = true;
  for (std::size_t i = 0; i + 1 < spectrum.lambda.size(); ++i) {
    sum += spectrum.lambda[i];
    const double share = sum / spectrum.norm_squared;
    const auto k = static_cast<double>(i + 1);
    if (below90 && share >= 0.90) {
      values[Metric::kRank90] = k;
      below90 = false;
    }
    if (below95 && share >= 0.95) {
      values[Metric::kRank95] = k;
      below95 = false;
    }
    if (share >= 0.99) {
      values[Metric::kRank99] = k;
      break;
    }
  }
  const double threshold = spectrum.n * kFloatEpsilon * spectrum.sigma[0];
  const auto above = std::partition_point(spectrum.sigma.begin(), spectrum.sigma.end(),
                                          [&](double sigma) { return sigma > threshold; });
  values[Metric::kNumericalRank] = static_cast<double>(above - spectrum.sigma.begin());
}

// Sums over the whole spectrum: norms, entropies, Gini, logarithms.
void set_sums(const Spectrum& spectrum, MetricValues& values) {
  const std::size_t count = spectrum.sigma.size();
  double nuclear = 0.0;
  double lambda_sum = 0.0;
  double lambda_squared = 0.0;
  double rank_weighted = 0.0;  // sum of i lambda_i, i from 1 at the largest
  double lambda_log = 0.0;
  double sigma_log = 0.0;
  double log_sum = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double sigma = spectrum.sigma[i];
    const double lambda = spectrum.lambda[i];
    nuclear += sigma;
    lambda_sum += lambda;
    lambda_squared += lambda * lambda;
    rank_weighted += static_cast<double>(i + 1) * lambda;
    log_sum += spectrum.log[i];
    if (lambda > 0.0) {
      lambda_log += lambda * spectrum.log[i];
      sigma_log += 0.5 * sigma * spectrum.log[i];
    }
  }
  const double p = spectrum.p;
  const double f2 = spectrum.norm_squared;
  values[Metric::kNuclearNorm] = nuclear;
  values[Metric::kParticipationRatio] = ratio(f2 * f2, lambda_squared);
  // H of q_i = lambda_i / F2: -sum q ln q = (sum lambda ln F2 - sum lambda ln lambda) / F2.
  const double entropy = (lambda_sum * std::log(f2) - lambda_log) / f2;
  values[Metric::kEffectiveRank] = std::exp(entropy);
  values[Metric::kSpectralEntropy] = p > 1.0 ? entropy / std::log(p) : kNaN;
  values[Metric::kEffectiveRankSigma] = std::exp(std::log(nuclear) - sigma_log / nuclear);
  const double mean_log = log_sum / p - std::log(f2 / p);
  values[Metric::kTraceLog] = std::isfinite(mean_log) ? mean_log : kNaN;
  // Of values in descending order: (p + 1 - 2 sum i lambda_i / sum lambda) / p.
  values[Metric::kGini] = (p + 1.0 - 2.0 * rank_weighted / lambda_sum) / p;
}

void set_hill(const Spectrum& spectrum, MetricValues& values) {
  const auto& lambda = spectrum.lambda;
  const std::size_t k = lambda.size() / 2;
  if (k > 0 && lambda[k] > spectrum.min_known) {
    double excess = 0.0;
    for (std::size_t i = 0; i < k; ++i) {
      excess += spectrum.log[i] - spectrum.log[k];
    }
    const double inverse = ratio(static_cast<double>(k), excess);
    values[Metric::kHillAlpha] = 1.0 + inverse;
  }
}

void set_power_law(const Spectrum& spectrum, MetricValues& values) {
  const auto& lambda = spectrum.lambda;
  const auto end = std::partition_point(lambda.begin(), lambda.end(),
                                        [&](double value) { return value > spectrum.min_known; });
  const auto known = static_cast<std::size_t>(end - lambda.begin());
  const PowerLawFit fit =
      fit_power_law(std::span(lambda).first(known), std::span(spectrum.log).first(known));
  values[Metric::kPlAlpha] = fit.alpha;
  values[Metric::kPlXmin] = fit.xmin;
  values[Metric::kPlKs] = fit.ks;
  values[Metric::kPlTail] = fit.tail;
}

// Comparison with noise of the scale of the bulk. Upper threshold: Johnstone 2001; lower: the same
// with the difference of the roots in place of their sum.
void set_noise_comparison(const Spectrum& spectrum, MetricValues& values) {
  const double p = spectrum.p;
  const double n = spectrum.n;
  const MarchenkoPastur law(p / n);
  const double scale_squared = median_of_descending(spectrum.lambda) / (n * law.median());
  values[Metric::kMpScale] = std::sqrt(scale_squared);

  const double high = scale_squared * upper_outlier_threshold(p, n);
  const auto& lambda = spectrum.lambda;
  const auto above = std::partition_point(lambda.begin(), lambda.end(),
                                          [&](double value) { return value > high; });
  values[Metric::kMpOutliers] = static_cast<double>(above - lambda.begin());

  values[Metric::kMpLowerOutliers] = 0.0;
  if (p <= kHardEdge * n) {
    const double low = scale_squared * lower_outlier_threshold(p, n);
    const auto inside = std::partition_point(lambda.begin(), lambda.end(),
                                             [&](double value) { return value >= low; });
    values[Metric::kMpLowerOutliers] = static_cast<double>(lambda.end() - inside);
  }

  const double unit = scale_squared * n;
  if (!(unit > 0.0)) {
    return;  // no bulk to compare with
  }
  double greatest = 0.0;
  for (std::size_t i = 0; i < lambda.size(); ++i) {
    // The empirical distribution steps at every value: both sides of a step count.
    const double expected = law.cumulative(lambda[i] / unit);
    const double at = (p - static_cast<double>(i)) / p;          // share of values <= this one
    const double before = (p - static_cast<double>(i + 1)) / p;  // just below it
    greatest = std::max({greatest, at - expected, expected - before});
  }
  values[Metric::kMpKs] = greatest;
}

void set_theta(const Spectrum& spectrum, double sigma_error, MetricValues& values,
               std::string& reason) {
  const SpectralTheta theta = spectral_theta(spectrum.sigma, static_cast<std::int64_t>(spectrum.n),
                                             spectrum.norm_squared, sigma_error);
  values[Metric::kTheta] = theta.theta;
  values[Metric::kSignal] = theta.signal;
  values[Metric::kRankEdge] = theta.rank_edge;
  values[Metric::kRankGd] = theta.rank_gd;
  if (theta.is_exact_low_rank) {
    add_reason_once(reason, "exact low rank: theta is 90");
  }
}

Spectrum spectrum_of(std::int64_t p, std::int64_t n, double norm_squared,
                     std::span<const double> sigma) {
  Spectrum spectrum{static_cast<double>(p), static_cast<double>(n), norm_squared, sigma, {}, {}};
  spectrum.lambda.resize(sigma.size());
  std::transform(sigma.begin(), sigma.end(), spectrum.lambda.begin(),
                 [](double value) { return value * value; });
  return spectrum;
}

void set_logarithms(Spectrum& spectrum) {
  spectrum.log.resize(spectrum.sigma.size());
  std::transform(spectrum.sigma.begin(), spectrum.sigma.end(), spectrum.log.begin(),
                 [](double sigma) { return 2.0 * std::log(sigma); });
}

}  // namespace

MetricValues metrics_of_draw(std::int64_t n, std::span<const double> sigma) {
  const auto p = static_cast<std::int64_t>(sigma.size());
  double norm_squared = 0.0;
  for (const double value : sigma) {
    norm_squared += value * value;
  }
  Spectrum spectrum = spectrum_of(p, n, norm_squared, sigma);
  set_logarithms(spectrum);
  MetricValues values;
  set_head(spectrum, values);
  set_ranks(spectrum, values);
  set_sums(spectrum, values);
  set_hill(spectrum, values);
  values[Metric::kConditionNumber] = ratio(sigma.front(), sigma.back());
  if (p < kMinTabulatedTheta) {
    values[Metric::kTheta] =
        spectral_theta(sigma, n, norm_squared, std::numeric_limits<double>::quiet_NaN()).theta;
  }
  keep_ranges(spectrum.p, values);
  for (const MetricRow& row : metric_rows()) {
    if (!row.has_null) {
      values[row.metric] = kNaN;
    }
  }
  return values;
}

MetricValues derive_metrics(std::int64_t rows, std::int64_t cols, const MatrixReport& report,
                            SpectrumMode mode, std::string& reason) {
  expects(rows > 0 && cols > 0, "derive_metrics: a matrix has rows and columns");
  MetricValues values;
  if (report.status != MatrixStatus::kMeasured) {
    return values;
  }
  values[Metric::kCheckTrace] = report.check_trace;
  values[Metric::kCheckGram] = report.check_gram;
  const std::int64_t p = std::min(rows, cols);
  const double norm_squared = report.moments.sum_squares;
  if (norm_squared == 0.0) {
    set_zero_matrix(values);
    add_reason_once(reason, "zero matrix");
    return values;
  }
  const bool fast = mode == SpectrumMode::kFast;
  const auto have = static_cast<std::int64_t>(report.sigma.size());
  expects(have == (fast ? std::min<std::int64_t>(p, 64) : p),
          "derive_metrics: min(rows, cols) singular values, in fast mode 64 at most");

  Spectrum spectrum = spectrum_of(p, std::max(rows, cols), norm_squared, report.sigma);
  if (report.sigma_error > 0.0) {  // NaN: nothing is said
    spectrum.min_known = report.sigma_error * report.sigma_error;
  }
  values[Metric::kFrobeniusNorm] = std::sqrt(norm_squared);
  set_head(spectrum, values);
  if (report.bounds) {
    keep_within(*report.bounds, values);
  }
  if (p == 1) {
    add_reason_once(reason, "one singular value");
  }
  if (fast) {
    keep_ranges(spectrum.p, values);
    add_reason_once(reason, "fast mode: no tail");
    return values;
  }

  set_logarithms(spectrum);
  if (p > 64) {
    double top = 0.0;
    const std::size_t end = std::min<std::size_t>(128, spectrum.lambda.size());
    for (std::size_t i = 0; i < end; ++i) {
      top += spectrum.lambda[i];
      if (i == 63) {
        values[Metric::kVarAt64Top128] = top;
      }
    }
    values[Metric::kVarAt64Top128] = ratio(values[Metric::kVarAt64Top128], top);
  }
  set_ranks(spectrum, values);
  set_sums(spectrum, values);
  set_hill(spectrum, values);
  set_power_law(spectrum, values);
  if (report.tail_reliable) {
    set_noise_comparison(spectrum, values);
    set_theta(spectrum, report.sigma_error, values, reason);
  }
  values[Metric::kSigmaMin] = spectrum.sigma.back();
  values[Metric::kConditionNumber] = ratio(spectrum.sigma.front(), spectrum.sigma.back());
  if (!report.tail_reliable) {
    // What every value enters with a weight of its own, however small it is. Comparisons with noise
    // rest on the median, which may be among what is lost; fits leave out what is within the error.
    for (const Metric metric :
         {Metric::kSigmaMin, Metric::kConditionNumber, Metric::kNumericalRank, Metric::kTraceLog,
          Metric::kNuclearNorm, Metric::kEffectiveRankSigma}) {
      values[metric] = kNaN;
    }
    add_reason_once(reason, "tail not reliable");
  } else if (!(spectrum.sigma.back() > 0.0)) {
    add_reason_once(reason, "zero singular value");
  } else if (spectrum.sigma.back() <= report.sigma_error) {  // false where that is NaN
    // By the error that the row stores, even where the smallest value alone is known better.
    values[Metric::kConditionNumber] = values[Metric::kTraceLog] = kNaN;
    add_reason_once(reason, "sigma_min within its error");
  }
  if (p > 1 && (std::isnan(values[Metric::kHillAlpha]) || std::isnan(values[Metric::kPlAlpha]))) {
    add_reason_once(reason, "no tail to fit");
  }
  keep_ranges(spectrum.p, values);
  return values;
}

}  // namespace vindex::statistics
