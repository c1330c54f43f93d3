// Owns sums with the rounding of each addition carried along, the bounds of both checks, and the
// judgement which of them is refuted.
#include "spectrum_checks.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::statistics {
namespace {

constexpr double kUnit = 0x1p-53;

/// A sum that carries what each addition rounded off. Source: Neumaier, "Rundungsfehleranalyse
/// einiger Verfahren zur Summation endlicher Summen" (1974).
class CarefulSum {
 public:
  void add(double term) {
    const double next = sum_ + term;
    lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - next) + term : (term - next) + sum_;
    sum_ = next;
  }
  double value() const { return sum_ + lost_; }

 private:
  double sum_ = 0.0;
  double lost_ = 0.0;
};

/// Relative rounding of F2: 512 squares in a lane of a tile (decode/moments.cpp), then tiles in a
/// tree, then pieces of 128 or more of the long side one after another; of s^2, from a root.
double rounding_of_trace(const CheckSources& sources) {
  return kUnit * (600.0 + static_cast<double>(sources.n) / 128.0);
}

/// The same of ||G||_F^2: eight lanes of a column (cpu/gram/gram.cpp), or less.
double rounding_of_norm(const CheckSources& sources) {
  return kUnit * (64.0 + static_cast<double>(sources.p) / 8.0);
}

double square(double x) { return x * x; }

/// (s + e)^4 - s^4
double fourth_error(double s, double e) {
  const double of_square = 2.0 * s * e + e * e;
  return of_square * (2.0 * s * s + of_square);
}

/// By how much [low, high] misses `value`, relative to it.
double miss(double low, double high, double value) {
  return std::max({low - value, value - high, 0.0}) / value;
}

}  // namespace

SpectrumChecks check_spectrum(std::span<const double> sigma, std::span<const double> errors,
                              const CheckSources& sources) {
  CarefulSum trace;
  CarefulSum norm;
  double trace_error = 0.0;
  double norm_error = 0.0;
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    const double lambda = sigma[i] * sigma[i];
    trace.add(lambda);
    norm.add(lambda * lambda);
    trace_error += 2.0 * sigma[i] * errors[i] + errors[i] * errors[i];
    norm_error += fourth_error(sigma[i], errors[i]);
  }
  // G itself, where the errors are not those of its values (Higham 2002, section 3.5).
  const double own = sources.gram_terms * 2.0 * kUnit * sources.sum_squares;
  norm_error += 2.0 * own * std::sqrt(sources.gram_norm_squared) + own * own;
  SpectrumChecks checks = {
      .trace = std::abs(trace.value() - sources.sum_squares) / sources.sum_squares,
      .gram = std::abs(norm.value() - sources.gram_norm_squared) / sources.gram_norm_squared};
  const double trace_allowed = trace_error / sources.sum_squares + rounding_of_trace(sources);
  const double gram_allowed = norm_error / sources.gram_norm_squared + rounding_of_norm(sources);
  if (!std::isnan(trace_allowed)) {
    checks.trace_allowed = trace_allowed;
  }
  if (!std::isnan(gram_allowed)) {
    checks.gram_allowed = gram_allowed;
  }
  return checks;
}

SpectrumChecks check_largest(std::span<const double> sigma, std::span<const double> errors,
                             const CheckSources& sources) {
  double low = 0.0;
  double high = 0.0;
  double low_fourth = 0.0;
  double high_fourth = 0.0;
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    const double least = std::max(sigma[i] - errors[i], 0.0);
    const double most = sigma[i] + errors[i];
    low += square(least);
    high += square(most);
    low_fourth += square(square(least));
    high_fourth += square(square(most));
  }
  const auto others = static_cast<double>(sources.p - static_cast<std::int64_t>(sigma.size()));
  const double last = sigma.back() + errors.back();
  high += others * square(last);
  high_fourth += others * square(square(last));
  return {.trace = miss(low, high, sources.sum_squares),
          .gram = miss(low_fourth, high_fourth, sources.gram_norm_squared),
          .trace_allowed = rounding_of_trace(sources),
          .gram_allowed = rounding_of_norm(sources)};
}

SpectrumChecks check_similar(double trace, double norm_squared, const ErrorParts& error,
                             const CheckSources& sources) {
  const auto p = static_cast<double>(sources.p);
  // Sums of each + own l and of twice l times that and its square, over eigenvalues l.
  const double trace_error = p * error.each + error.own * sources.sum_squares;
  const double norm_error =
      2.0 * (error.each * sources.sum_squares + error.own * sources.gram_norm_squared) +
      2.0 * (p * square(error.each) + square(error.own) * sources.gram_norm_squared);
  return {.trace = std::abs(trace - sources.sum_squares) / sources.sum_squares,
          .gram = std::abs(norm_squared - sources.gram_norm_squared) / sources.gram_norm_squared,
          .trace_allowed = trace_error / sources.sum_squares + rounding_of_trace(sources),
          .gram_allowed = norm_error / sources.gram_norm_squared + rounding_of_norm(sources)};
}

}  // namespace vindex::statistics
