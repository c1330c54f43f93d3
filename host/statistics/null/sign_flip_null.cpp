// Owns a value beside its draws. With mean m and deviation d of R draws,
//
//   z = (value - m) / (d sqrt(1 + 1 / R)),    p = P(|t| > |z|), Student's t of R - 1 degrees
//
// which is the test that value is one more draw from the law of the draws. rand_distance is the
// square root of the Jensen-Shannon divergence of two spectra as shares l_i / sum l, index by
// index, as WeightWatcher has it.
//
// Why not (1 + draws beyond) / (1 + R): with ten draws it cannot fall below 0.09, and a draw costs
// a spectrum. What the normal law assumes holds for sums over spectra; counts, as mp_outliers, may
// have no spread at all, and then have neither z nor p.
#include "sign_flip_null.hpp"

#include "backend/backend.hpp"
#include "core/constants.hpp"
#include "statistics/samples/student.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/noise_edge.hpp"
#include "statistics/spectrum/noise_spectrum.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::statistics {
namespace {

constexpr std::size_t kFastSize = 64;
// Draws that differ by less than this, relative to their mean, differ by rounding.
constexpr double kDrawRounding = 1e-12;

// Relative to the first draw, so that draws that are equal, or whole numbers, have an exact mean.
SignFlipSpread spread_of_draws(const SignFlipNull& null, double value,
                               double (*of)(const SignFlipDraw&, std::size_t), std::size_t index) {
  const auto count = static_cast<double>(null.draws.size());
  const double first = of(null.draws.front(), index);
  double sum = 0.0;
  for (const SignFlipDraw& draw : null.draws) {
    sum += of(draw, index) - first;
  }
  SignFlipSpread spread;
  spread.mean = first + sum / count;
  if (count > 1.0) {
    double squares = 0.0;
    for (const SignFlipDraw& draw : null.draws) {
      const double step = of(draw, index) - spread.mean;
      squares += step * step;
    }
    spread.std = std::sqrt(squares / (count - 1.0));
  }
  if (spread.std > kDrawRounding * std::abs(spread.mean)) {
    spread.z = (value - spread.mean) / (spread.std * std::sqrt(1.0 + 1.0 / count));
    spread.p = student_two_sided(spread.z, count - 1.0);
  }
  return spread;
}

double distance_of(std::span<const double> a, std::span<const double> b) {
  const auto total = [](std::span<const double> sigma) {
    double sum = 0.0;
    for (const double value : sigma) {
      sum += value * value;
    }
    return sum;
  };
  const double total_a = total(a);
  const double total_b = total(b);
  if (!(total_a > 0.0) || !(total_b > 0.0)) {
    return kNaN;
  }
  double divergence = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i] * a[i] / total_a;
    const double y = b[i] * b[i] / total_b;
    const double middle = 0.5 * (x + y);
    divergence += x > 0.0 ? 0.5 * x * std::log(x / middle) : 0.0;
    divergence += y > 0.0 ? 0.5 * y * std::log(y / middle) : 0.0;
  }
  return std::sqrt(std::max(0.0, divergence));
}

}  // namespace

std::string null_name(std::int32_t sign_flip_draws) {
  if (sign_flip_draws <= 1) {
    return sign_flip_draws == 1 ? "signflip" : "none";
  }
  return "signflip=" + std::to_string(sign_flip_draws);
}

SignFlipCollector::SignFlipCollector(std::int64_t rows, std::int64_t cols, SpectrumMode mode)
    : fast_(mode == SpectrumMode::kFast) {
  expects(rows > 0 && cols > 0, "SignFlipCollector: a matrix has rows and columns");
  p_ = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  outlier_per_median_ = upper_outlier_threshold(p_, n) / (n * MarchenkoPastur(p_ / n).median());
}

void SignFlipCollector::add(std::vector<double> sigma, double norm_squared,
                            SignFlipNull& into) const {
  if (fast_ && sigma.size() > kFastSize) {
    sigma.resize(kFastSize);
  }
  SignFlipDraw draw;
  if (norm_squared == 0.0) {
    draw.mp_outliers = fast_ ? kNaN : 0.0;
  } else if (!sigma.empty()) {
    std::vector<double> lambda(sigma.size());
    std::transform(sigma.begin(), sigma.end(), lambda.begin(),
                   [](double value) { return value * value; });
    set_head_shares(lambda, p_, norm_squared, draw.var_at_k);
    draw.stable_rank = lambda[0] > 0.0 ? std::max(1.0, norm_squared / lambda[0]) : kNaN;
    if (!fast_) {
      double sum = 0.0;
      double sum_log = 0.0;
      for (std::size_t i = 0; i < sigma.size(); ++i) {
        sum += lambda[i];
        sum_log += lambda[i] > 0.0 ? lambda[i] * 2.0 * std::log(sigma[i]) : 0.0;
      }
      draw.effective_rank =
          std::clamp(std::exp((sum * std::log(norm_squared) - sum_log) / norm_squared), 1.0, p_);
      const double threshold = outlier_per_median_ * median_of_descending(lambda);
      const auto above = std::partition_point(lambda.begin(), lambda.end(),
                                              [&](double value) { return value > threshold; });
      draw.mp_outliers = static_cast<double>(above - lambda.begin());
    }
  }
  if (into.draws.empty()) {
    into.first_sigma = std::move(sigma);
  }
  into.draws.push_back(draw);
}

SignFlipSummary summarise_sign_flips(const SignFlipNull& null, const MetricValues& values,
                                     std::span<const double> sigma, std::int64_t p) {
  SignFlipSummary summary;
  if (null.draws.empty()) {
    return summary;
  }
  summary.var_at_k = null.draws.front().var_at_k;
  if (static_cast<std::int64_t>(sigma.size()) == p && null.first_sigma.size() == sigma.size()) {
    summary.rand_distance = distance_of(sigma, null.first_sigma);
  }
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    summary.var_at_k_spread[i] = spread_of_draws(
        null, values.var_at_k[i],
        [](const SignFlipDraw& draw, std::size_t k) { return draw.var_at_k[k]; }, i);
  }
  summary.stable_rank = spread_of_draws(
      null, values[Metric::kStableRank],
      [](const SignFlipDraw& draw, std::size_t) { return draw.stable_rank; }, 0);
  summary.effective_rank = spread_of_draws(
      null, values[Metric::kEffectiveRank],
      [](const SignFlipDraw& draw, std::size_t) { return draw.effective_rank; }, 0);
  summary.mp_outliers = spread_of_draws(
      null, values[Metric::kMpOutliers],
      [](const SignFlipDraw& draw, std::size_t) { return draw.mp_outliers; }, 0);
  return summary;
}

}  // namespace vindex::statistics
