// Owns what the spectral methods do to singular values and what that does to the matrix, whether a
// matrix is purified at all, and the product of singular triplets that is kept, multiplied out.
#include "purify_methods.hpp"

#include "blas/blas.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "statistics/spectrum/spectral_theta.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stop_token>

namespace vindex::purify {

std::string_view verdict_name(GateVerdict verdict) {
  switch (verdict) {
    case GateVerdict::kOpen:
      return "open";
    case GateVerdict::kForced:
      return "forced";
    case GateVerdict::kShut:
      break;
  }
  return "shut";
}

GateDecision decide_gate(const GateRules& rules, std::int64_t rows, std::int64_t cols,
                         const NoiseFit& fit, std::optional<double> energy_removed) {
  std::string reason;
  std::string_view first;
  const auto add = [&](std::string_view word, const std::string& text) {
    first = first.empty() ? word : first;
    reason += (reason.empty() ? "" : "; ") + text;
  };
  const std::int64_t short_side = std::min(rows, cols);
  if (energy_removed && *energy_removed >= 1.0) {
    return {GateVerdict::kShut, "no rank", "nothing would be left of it"};
  }
  if (short_side < rules.min_short_side) {
    add("too small", fmt::format("{} singular values are too few to recognise noise", short_side));
  } else if (!(fit.sigma > 0.0)) {
    add("no noise", "no noise in it: more than half of its singular values are zero");
  } else {
    if (!(fit.ks < rules.largest_ks)) {
      add("no bulk", fmt::format("KS {:.3f} is not below {:.2f}: its bulk is not noise", fit.ks,
                                 rules.largest_ks));
    }
    if (fit.rank_gd == 0) {
      add("no rank", "no singular value stands out of the noise");
    }
  }
  if (energy_removed && *energy_removed > rules.energy_cap) {
    add("over cap", fmt::format("{:.1f} % of its energy would go, the cap is {:g} %",
                                100.0 * *energy_removed, 100.0 * rules.energy_cap));
  }
  if (reason.empty()) {
    return {GateVerdict::kOpen, {}, {}};
  }
  return {rules.force ? GateVerdict::kForced : GateVerdict::kShut, first, reason};
}

namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(PurifyMethod::kCount)>
    kMethodNames = {"svd-shrink",    "svd-gd", "laser",      "fft",
                    "fft-universal", "haar",   "haar-bayes", "haar-visu"};

double square(double value) { return value * value; }

/// Weights are float32: what they leave beside the largest value is rounding.
double lost_below(std::span<const double> singular_values) {
  return singular_values.empty()
             ? 0.0
             : 4.0 * std::numeric_limits<float>::epsilon() * singular_values.front();
}

ChangeStatistics figures_of(double before, double after, double product, double difference) {
  ChangeStatistics figures;
  if (before > 0.0) {
    figures.energy_removed = 1.0 - after / before;
    figures.cosine = after > 0.0 ? std::min(product / std::sqrt(before * after), 1.0) : 0.0;
    figures.relative_change = std::sqrt(difference / before);
  }
  return figures;
}

}  // namespace

std::string_view method_name(PurifyMethod method) {
  return kMethodNames.at(static_cast<std::size_t>(method));
}

std::optional<PurifyMethod> method_of(std::string_view name) {
  const auto* const at = std::find(kMethodNames.begin(), kMethodNames.end(), name);
  if (at == kMethodNames.end()) {
    return std::nullopt;
  }
  return static_cast<PurifyMethod>(at - kMethodNames.begin());
}

bool is_spectral(PurifyMethod method) {
  return method == PurifyMethod::kSvdShrink || method == PurifyMethod::kSvdGd ||
         method == PurifyMethod::kLaser;
}

double optimal_shrinkage(double z, double aspect) {
  if (!(z > 1.0 + std::sqrt(aspect))) {
    return 0.0;
  }
  return std::sqrt(std::max(square(z * z - aspect - 1.0) - 4.0 * aspect, 0.0)) / z;
}

NoiseFit fit_noise(std::int64_t rows, std::int64_t cols, std::span<const double> singular_values) {
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.sigma.assign(singular_values.begin(), singular_values.end());
  for (const double value : singular_values) {
    report.moments.sum_squares += value * value;
  }
  const std::int64_t longer = std::max(rows, cols);
  NoiseFit fit;
  fit.aspect = static_cast<double>(std::min(rows, cols)) / static_cast<double>(longer);
  const double rounding = lost_below(singular_values);
  const statistics::SpectralTheta noise =
      statistics::spectral_theta(singular_values, longer, report.moments.sum_squares, rounding);
  if (!(noise.noise > 0.0)) {
    return fit;
  }
  fit.sigma = noise.noise;
  fit.unit = fit.sigma * std::sqrt(static_cast<double>(longer));
  fit.rank_edge = static_cast<std::int64_t>(noise.rank_edge);
  fit.rank_gd = static_cast<std::int64_t>(noise.rank_gd);
  std::string unused;
  const double ks = statistics::derive_metrics(rows, cols, report, SpectrumMode::kDefault,
                                               unused)[statistics::Metric::kMpKs];
  fit.ks = std::isnan(ks) ? 1.0 : ks;
  return fit;
}

std::vector<double> kept_values(const PurifyRule& rule, const NoiseFit& fit,
                                std::span<const double> singular_values) {
  expects(is_spectral(rule.method), "kept_values: a method of singular values");
  const auto all = static_cast<double>(singular_values.size());
  std::size_t count = 0;
  switch (rule.method) {
    case PurifyMethod::kLaser:
      count = static_cast<std::size_t>(std::clamp(std::floor(rule.rank_share * all), 0.0, all));
      break;
    case PurifyMethod::kSvdGd:
      count = static_cast<std::size_t>(fit.rank_gd);
      break;
    default:
      count = static_cast<std::size_t>(fit.rank_edge);
  }
  std::vector<double> kept(singular_values.begin(),
                           singular_values.begin() + static_cast<std::ptrdiff_t>(count));
  if (rule.method == PurifyMethod::kSvdShrink) {
    for (double& value : kept) {
      value = fit.unit * optimal_shrinkage(value / fit.unit, fit.aspect);
    }
  }
  // Vectors of what rounding left are any vectors: a rank that is not there is not kept.
  while (!kept.empty() && (!(kept.back() > 0.0) ||
                           singular_values[kept.size() - 1] <= lost_below(singular_values))) {
    kept.pop_back();
  }
  return kept;
}

ChangeStatistics change_of_values(std::span<const double> singular_values,
                                  std::span<const double> kept) {
  expects(kept.size() <= singular_values.size(), "change_of_values: no more values than there are");
  double before = 0.0;
  double after = 0.0;
  double product = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < singular_values.size(); ++i) {
    const double now = i < kept.size() ? kept[i] : 0.0;
    before += square(singular_values[i]);
    after += square(now);
    product += singular_values[i] * now;
    difference += square(singular_values[i] - now);
  }
  return figures_of(before, after, product, difference);
}

ChangeStatistics change_of_weights(std::span<const float> before, std::span<const float> after) {
  expects(before.size() == after.size(), "change_of_weights: as many weights as before");
  double norm = 0.0;
  double now = 0.0;
  double product = 0.0;
  double difference = 0.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double a = before[i];
    const double b = after[i];
    norm += a * a;
    now += b * b;
    product += a * b;
    difference += square(a - b);
  }
  return figures_of(norm, now, product, difference);
}

LowRank low_rank_of(Backend& backend, const decode::EncodedMatrix& matrix,
                    std::span<const double> kept, std::stop_token stop) {
  expects(
      !kept.empty() && static_cast<std::int64_t>(kept.size()) <= std::min(matrix.rows, matrix.cols),
      "low_rank_of: between one and all singular values");
  const auto input = make_memory_input(matrix);
  MeasureOptions options;
  options.vectors = static_cast<std::int32_t>(kept.size());
  options.stop = std::move(stop);
  MatrixReport report;
  MatrixInput* const batch[] = {input.get()};
  backend.measure(batch, options, 0, std::span(&report, 1));
  LowRank out{.rows = matrix.rows,
              .cols = matrix.cols,
              .rank = options.vectors,
              .a = {},
              .b = {},
              .residual = 0.0,
              .failure = {}};
  if (report.status != MatrixStatus::kMeasured || !report.vectors) {
    out.failure = report.reason.empty() ? "the back end found no vectors" : report.reason;
    return out;
  }
  SingularVectors& vectors = *report.vectors;
  if (vectors.count < out.rank) {
    out.failure = fmt::format("{} singular vectors of {} were found", vectors.count, out.rank);
    return out;
  }
  const auto rank = static_cast<std::size_t>(out.rank);
  const auto rows = static_cast<std::size_t>(out.rows);
  const auto cols = static_cast<std::size_t>(out.cols);
  out.a = std::move(vectors.right);
  out.b.resize(rows * rank);
  for (std::size_t k = 0; k < rank; ++k) {
    const auto root = static_cast<float>(std::sqrt(kept[k]));
    for (std::size_t j = 0; j < cols; ++j) {
      out.a[k * cols + j] *= root;
    }
    for (std::size_t i = 0; i < rows; ++i) {
      out.b[i * rank + k] = root * vectors.left[k * rows + i];
    }
    out.residual = std::max(out.residual, vectors.residual[k] / vectors.sigma.front());
  }
  return out;
}

void multiply_out(const LowRank& factors, std::span<float> out) {
  expects(static_cast<std::int64_t>(out.size()) == factors.rows * factors.cols,
          "multiply_out: a matrix of the factors' shape");
  blas::blas().cblas_sgemm(
      CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(factors.rows),
      static_cast<int>(factors.cols), static_cast<int>(factors.rank), 1.0F, factors.b.data(),
      static_cast<int>(factors.rank), factors.a.data(), static_cast<int>(factors.cols), 0.0F,
      out.data(), static_cast<int>(factors.cols));
}

}  // namespace vindex::purify
