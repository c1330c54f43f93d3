#include "batch/judge.hpp"

#include <vindex/measure/metrics.hpp>
#include <vindex/measure/spectrum_checks.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace vindex::kernels {

using measure::MatrixReport;
using measure::Status;

namespace {

constexpr std::int64_t kFastValues = 64;

}  // namespace

JudgedSpectrum singular_values_of(const RawSpectrum& raw) {
  JudgedSpectrum out;
  std::vector<double> values(raw.eigenvalues.begin(), raw.eigenvalues.end());
  if (raw.failed ||
      !std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) {
    return out;
  }
  // A zero row is an eigenvalue 0 that the solver returns as rounding noise: those nearest to 0 are
  // taken out and put back as what they are.
  std::sort(values.begin(), values.end(),
            [](double a, double b) { return std::abs(a) > std::abs(b); });
  const auto zeros = static_cast<std::size_t>(
      std::clamp<std::int64_t>(raw.zero_rows, 0, static_cast<std::int64_t>(values.size())));
  values.resize(values.size() - zeros);
  std::sort(values.begin(), values.end(), std::greater<>());
  out.negative = !values.empty() && values.back() < 0.0;
  // sqrt(2^e x) = 2^(e/2) sqrt(x) for even e.
  const int odd = raw.exponent % 2 != 0 ? 1 : 0;
  const int half = (raw.exponent - odd) / 2;
  for (const double value : values) {
    out.sigma.push_back(std::ldexp(std::sqrt(std::ldexp(std::max(value, 0.0), odd)), half));
  }
  out.sigma.resize(raw.eigenvalues.size(), 0.0);
  return out;
}

bool beyond_gram64(const JudgedSpectrum& spectrum, std::int64_t zero_rows) {
  const auto p = static_cast<std::int64_t>(spectrum.sigma.size());
  if (spectrum.negative || zero_rows >= p) {
    return spectrum.negative;
  }
  const double smallest = spectrum.sigma[static_cast<std::size_t>(p - zero_rows - 1)];
  return !(spectrum.sigma.front() <=
           measure::kStrictConditionPerSize * static_cast<double>(p) * smallest);
}

void fill_report(const JudgedSpectrum& spectrum, std::int64_t p, MatrixReport& report) {
  if (report.moments.nonfinite > 0) {
    report.status = Status::kNotFinite;
    report.reason = std::to_string(report.moments.nonfinite) + " weights are not finite";
    report.gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
    report.sigma.clear();
    return;
  }
  if (report.moments.max_abs() == 0.0) {
    report.status = Status::kMeasured;
    report.reason = "zero matrix";
    report.sigma.assign(static_cast<std::size_t>(p), 0.0);
    return;
  }
  report.sigma = spectrum.sigma;
  if (report.sigma.empty()) {
    report.status = Status::kNotConverged;
    report.reason = "the eigenvalue iteration did not converge";
    return;
  }
  report.status = Status::kMeasured;
  report.reason.clear();
  measure::set_checks(report);
}

bool is_doubtful(const JudgedSpectrum& spectrum, const MatrixReport& report) {
  if (report.status == Status::kNotConverged) {
    return true;
  }
  return report.status == Status::kMeasured && report.moments.max_abs() > 0.0 &&
         (spectrum.negative || measure::checks_alarm(report) ||
          measure::condition_of(report.sigma) > measure::kEscalationCondition);
}

void keep_fast(std::int64_t n, std::int64_t p, MatrixReport& report) {
  if (report.status != Status::kMeasured) {
    return;
  }
  const auto kept = static_cast<std::size_t>(std::min(p, kFastValues));
  if (report.moments.max_abs() == 0.0) {
    report.sigma.resize(kept);
    return;
  }
  constexpr double kEps = 2.220446049250313e-16;
  const double total = report.moments.sum_squares;
  const double largest = report.sigma.front() * report.sigma.front();
  const double shift =
      kEps * (static_cast<double>(n) * total + 100.0 * static_cast<double>(p) * largest);
  measure::SpectrumBounds bounds;
  for (const std::int64_t k : measure::kVarAtK) {
    double lower = std::numeric_limits<double>::quiet_NaN();
    double upper = lower;
    if (k <= kFastValues) {
      const std::int64_t used = std::min(k, p);
      double sum = 0.0;
      for (std::int64_t i = 0; i < used; ++i) {
        const double s = report.sigma[static_cast<std::size_t>(i)];
        sum += s * s;
      }
      const double slack = static_cast<double>(used) * shift;
      lower = k >= p ? 1.0 : std::max(0.0, (sum - slack) / total);
      upper = k >= p ? 1.0 : std::min(1.0, (sum + slack) / total);
    }
    bounds.var_at_k_lower.push_back(lower);
    bounds.var_at_k_upper.push_back(upper);
  }
  bounds.stable_rank_lower = total / (largest + shift);
  bounds.stable_rank_upper = total / std::max(largest - shift, std::numeric_limits<double>::min());
  report.bounds = bounds;
  report.sigma.resize(kept);
  report.tail_reliable = false;
}

}  // namespace vindex::kernels
