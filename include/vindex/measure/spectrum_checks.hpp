// Owns the judgement of a spectrum, the same for every back end: the two free self-checks and the
// thresholds at which a route is not accurate enough (metrics contract, "Accuracy promised").
#pragma once

#include <vindex/measure/backend.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace vindex::measure {

/// Alarm of both self-checks, and condition above which `default` hands over to `strict`.
inline constexpr double kCheckAlarm = 3e-6;
inline constexpr double kEscalationCondition = 100.0;
/// A float64 Gram holds the promise of `strict` up to this many times p; QR beyond.
inline constexpr double kStrictConditionPerSize = 10.0;

/// s_1 / s_p of a rows x cols matrix of pure noise: the edges sqrt(n) +- sqrt(p) of its spectrum,
/// the lower one with p - 1, which is the size of the smallest value of a square matrix too (n = p:
/// 4 p here, a median of 3.7 p for large p). For n > p it lies above the median of drawn noise,
/// most where n is nearest to p: by a fifth for p = 64 and more, by somewhat less than a third for
/// p = 16. Source: Rudelson and Vershynin, "Smallest singular value of a random rectangular matrix"
/// (2009); Edelman (1988) for n = p.
inline double noise_condition(std::int64_t rows, std::int64_t cols) {
  const double n = std::sqrt(static_cast<double>(std::max(rows, cols)));
  const auto p = static_cast<double>(std::min(rows, cols));
  return (n + std::sqrt(p)) / (n - std::sqrt(p - 1.0));
}

/// True where the shape alone says that `default` would throw its first route away: even noise,
/// which is better conditioned than what training leaves, lies beyond kEscalationCondition, with a
/// margin for the spread of its smallest value. Both back ends then take the route of `strict` at
/// once.
inline bool is_strict_by_shape(std::int64_t rows, std::int64_t cols,
                               const MeasureOptions& options) {
  constexpr double kMargin = 1.25;
  return options.mode == Mode::kDefault && options.escalate &&
         noise_condition(rows, cols) > kMargin * kEscalationCondition;
}

/// s_1 / s_p of descending values; infinite where s_p is 0.
inline double condition_of(const std::vector<double>& sigma) {
  return sigma.back() > 0.0 ? sigma.front() / sigma.back()
                            : std::numeric_limits<double>::infinity();
}

/// Sets check_trace and check_gram of `report` from its sigma, moments and gram_norm_squared.
inline void set_checks(MatrixReport& report) {
  double trace = 0.0;
  double norm = 0.0;
  for (auto s = report.sigma.rbegin(); s != report.sigma.rend(); ++s) {  // small terms first
    const double lambda = *s * *s;
    trace += lambda;
    norm += lambda * lambda;
  }
  report.check_trace = std::abs(trace - report.moments.sum_squares) / report.moments.sum_squares;
  report.check_gram = std::abs(norm - report.gram_norm_squared) / report.gram_norm_squared;
}

/// True where a self-check says that something went wrong.
inline bool checks_alarm(const MatrixReport& report) {
  return report.check_trace > kCheckAlarm || report.check_gram > kCheckAlarm;
}

}  // namespace vindex::measure
