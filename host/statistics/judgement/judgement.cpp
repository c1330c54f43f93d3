// Owns the rules by which a finding becomes a report or a doubt (table: judgement.hpp). What they
// compare:
//
//   condition     s_1 / s_p over values that are not exact zeros
//   error of s_i  from its route: rounding of a Gram (spectrum_error.hpp), residuals of a tail
//                 (take_tail()), p eps64 s_1 for QR and more for many blocks of rows, the width of
//                 proved bounds for kTop
//   checks        sums over the spectrum, from another source, that may refute those errors
//                 (spectrum_checks.hpp); they see a wrong reduction or iteration, and cost nothing
//
// What refuted errors become where nothing takes over: an error that a trace misses by is a lower
// bound of the true one, so no number that the route has stands. What is left is that no singular
// value exceeds the norm of the matrix, and that is what is answered for, with the reason.
//
// Why errors and not a condition number alone: a condition above 100 threw away spectra of trained
// matrices of which all but a few values were good to 1e-6 (docs/decisions/spectra-and-errors.md).
#include "judgement.hpp"

#include "spectrum_bounds.hpp"
#include "step_result.hpp"

#include "core/constants.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::statistics {

namespace {

/// Of QR by blocks of rows, for each root of their number (docs/measuring/sigma-error.md).
constexpr double kRoundingsOfBlocks = 4.0;
/// Entry of var_at_k for k = 64, the last that `fast` bounds.
constexpr std::size_t kLastBound = 6;

/// s_1 / s_p over the values that are not exact zeros.
double condition_of(const StepResult& found) {
  const auto kept = static_cast<std::int64_t>(found.sigma.size()) - found.zero_rows;
  if (kept < 1) {
    return 1.0;
  }
  const double smallest = found.sigma[static_cast<std::size_t>(kept - 1)];
  return smallest > 0.0 ? found.sigma.front() / smallest : kInfinity;
}

double reach_of_gram64(const std::vector<double>& sigma) {
  return kStrictConditionPerSize * static_cast<double>(sigma.size());
}

double strict_error(std::int64_t p, double largest) {
  return 50.0 * static_cast<double>(p) * kEps64 * largest;
}

/// Whether value `i`, s known to within `error`, is known as well as the contract promises.
/// Relative promises are of what occurs, half of what is answered for
/// (statistics/judgement/spectrum_error.hpp).
bool is_known(std::size_t i, double s, double error, double largest, bool is_modest,
              const StepContext& situation) {
  const double strict = strict_error(situation.p(), largest);
  if (situation.is_strict || error <= strict) {
    return error <= strict;
  }
  // A value so near the threshold of numerical_rank leaves that open.
  const auto n = static_cast<double>(std::max(situation.rows, situation.cols));
  if (!(std::abs(s - n * kEps32 * largest) > error)) {
    return false;
  }
  if (is_modest) {
    return error <= (2e-6 + 1e-6 * largest / s) * largest;
  }
  constexpr double kAnsweredOfOccurring = 2.0;
  const double relative = i < kFastValues                   ? 1e-5
                          : s * kModestCondition >= largest ? 2e-4
                                                            : kInfinity;
  return s >= kMinDecided * largest && error <= kDefaultError * largest &&
         error <= kAnsweredOfOccurring * relative * s;
}

/// How many of the smallest values hold all that are not known well enough; nothing where all are.
/// `errors` here and below: sigma_errors(), which take the most time of a judgement.
std::optional<std::int64_t> lost_values(const StepResult& found, const StepContext& situation,
                                        std::span<const double> errors) {
  const bool is_modest = condition_of(found) <= kModestCondition;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!is_known(i, found.sigma[i], errors[i], found.sigma.front(), is_modest, situation)) {
      return static_cast<std::int64_t>(errors.size() - i);
    }
  }
  return std::nullopt;
}

/// The same of a float64 Gram in `strict`: values whose stated error exceeds the promise; and where
/// an eigenvalue is negative, or values lie beyond a condition of 10 p, those, counted with a
/// margin of two. The condition alone does not do: where many values lie near s_1/(10 p), rounding
/// mixes them, and each errs by more than one alone would.
std::optional<std::int64_t> lost_beyond_gram64(const StepResult& found,
                                               const StepContext& situation,
                                               std::span<const double> errors) {
  const double reach = reach_of_gram64(found.sigma);
  const auto p = static_cast<std::int64_t>(found.sigma.size());
  const std::optional<std::int64_t> unknown = lost_values(found, situation, errors);
  if (!found.negative && (found.zero_rows >= p || condition_of(found) <= reach)) {
    return unknown;
  }
  const double least = 2.0 * found.sigma.front() / reach;
  const std::int64_t beyond = std::count_if(found.sigma.begin(), found.sigma.end(),
                                            [&](double value) { return value < least; });
  return std::max(beyond, unknown.value_or(0));
}

/// True where there are the largest values alone, with bounds of their own.
bool has_top_alone(const StepResult& found, const StepContext& situation) {
  return situation.step == Step::kTop || !found.top_errors.empty();
}

/// `errors`: of each value found.
SpectrumChecks checks_of(const StepResult& found, const StepContext& situation,
                         std::span<const double> errors) {
  CheckSources sources = {.sum_squares = found.moments.sum_squares,
                          .gram_norm_squared = found.gram_norm_squared,
                          .p = situation.p(),
                          .n = std::max(situation.rows, situation.cols)};
  if (!has_top_alone(found, situation)) {
    // The Gram that came before QR is a float64 one.
    sources.gram_terms = situation.step == Step::kQr ? situation.sum_terms : 0.0;
    return check_spectrum(found.sigma, errors, sources);
  }
  const SpectrumChecks reduced =
      check_similar(found.reduced_trace, found.reduced_norm_squared,
                    matrix_error_parts(sources.p, found.sigma.front(), found.rounding), sources);
  return reduced.refute() ? reduced : check_largest(found.sigma, errors, sources);
}

/// Everything but what comes of doubt. False where there is nothing to doubt.
bool fill_report(const StepResult& found, const StepContext& situation, MatrixReport& report) {
  report.method = found.method;
  report.moments = found.moments;
  report.gram_norm_squared = found.gram_norm_squared;
  report.check_trace = report.check_gram = kNaN;
  report.sigma_error = kNaN;
  report.bounds.reset();
  report.sigma.clear();
  if (found.moments.nonfinite > 0) {
    report.status = MatrixStatus::kNotFinite;
    report.reason = std::to_string(found.moments.nonfinite) + " weights are not finite";
    report.gram_norm_squared = kNaN;
    return false;
  }
  if (found.moments.max_abs() == 0.0) {
    report.status = MatrixStatus::kMeasured;
    report.reason = "zero matrix";
    report.sigma_error = 0.0;
    const std::int64_t p = situation.p();
    report.sigma.assign(static_cast<std::size_t>(
                            situation.mode == SpectrumMode::kFast ? std::min(kFastValues, p) : p),
                        0.0);
    return false;
  }
  if (found.sigma.empty()) {
    report.status = MatrixStatus::kNotConverged;
    report.reason = "the eigenvalue iteration did not converge";
    return true;
  }
  report.status = MatrixStatus::kMeasured;
  report.reason.clear();
  report.sigma = found.sigma;
  return true;
}

/// True where kGram64 would leave more lost values than kTail takes on, and so lead to kQr. A value
/// that lies below both kMinDecided and s_1/(10 p) for certain is known too badly by any float64
/// Gram: `default` asks there for what `strict` does, and roundings of the largest value alone
/// (spectrum_error.cpp) exceed that.
bool is_beyond_gram64(const StepResult& found, const StepContext& situation) {
  if (!found.has_float64_sums || situation.max_tail_values == 0) {
    return false;
  }
  const std::vector<double>& sigma = found.sigma;
  const std::vector<double> errors = sigma_errors(found, situation);
  const double least = std::min(kMinDecided, 1.0 / reach_of_gram64(sigma)) * sigma.front();
  const auto others = static_cast<std::int64_t>(sigma.size()) - found.zero_rows;
  std::int64_t beyond = 0;
  for (std::int64_t i = 0; i < others; ++i) {
    const auto at = static_cast<std::size_t>(i);
    beyond += sigma[at] + errors[at] < least ? 1 : 0;
  }
  return beyond > situation.max_tail_values;
}

/// What follows a step that left doubt: `lost` of the smallest values alone, or everything (0).
NextStep after(const StepResult& found, const StepContext& situation, std::int64_t lost) {
  Step stage = situation.step;
  const bool may_help = lost > found.zero_rows &&
                        (found.zero_rows == 0 || situation.tail_leaves_zeros) &&
                        lost - found.zero_rows <= situation.max_tail_values;
  if (may_help && (stage == Step::kGram32 || stage == Step::kGram64)) {
    return {.next = Step::kTail, .lost = lost};
  }
  stage = stage == Step::kTail ? situation.before : stage;
  const bool has_gram64 = stage == Step::kGram64 || (lost > 0 && stage == Step::kGram32 &&
                                                     is_beyond_gram64(found, situation));
  return has_gram64 ? NextStep{.next = Step::kQr, .lost = lost} : NextStep{.next = Step::kGram64};
}

/// What is to be done about a spectrum of all values; nothing where there is no doubt.
NextStep doubt_full(const StepResult& found, const StepContext& situation,
                    const MatrixReport& report, std::span<const double> errors) {
  if (situation.mode == SpectrumMode::kFast) {
    const bool is_bad =
        situation.step == Step::kGram32 && (!report.bounds || !is_tight(*report.bounds));
    return is_bad ? after(found, situation, 0) : NextStep{};
  }
  const std::optional<std::int64_t> lost = situation.is_strict && situation.step == Step::kGram64
                                               ? lost_beyond_gram64(found, situation, errors)
                                               : lost_values(found, situation, errors);
  return lost ? after(found, situation, *lost) : NextStep{};
}

NextStep doubt(const StepResult& found, const StepContext& situation, const MatrixReport& report,
               const SpectrumChecks& checks, std::span<const double> errors) {
  if (situation.step == Step::kQr) {
    return {};
  }
  if (report.status == MatrixStatus::kNotConverged || checks.refute()) {
    return after(found, situation, 0);
  }
  if (has_top_alone(found, situation)) {
    return is_tight(found.bounds) ? NextStep{} : NextStep{.next = Step::kGram64};
  }
  return doubt_full(found, situation, report, errors);
}

/// Error of every square that the bounds of `fast` allow for. Of a float32 Gram that of each value,
/// as it is stated: what one value far above all others rounds is not charged to each of them, nor
/// what one line does.
SquareErrors square_errors(const StepResult& found, const StepContext& situation,
                           const MatrixReport& report) {
  const double largest = report.sigma.front();
  if (situation.step == Step::kGram32) {
    Rounding shared = found.rounding;
    shared.lone = 0.0;
    const std::span<const double> sigma = report.sigma;
    const std::size_t zeros = std::min(static_cast<std::size_t>(found.zero_rows), sigma.size());
    std::vector<double> errors = eigenvalue_errors(sigma.first(sigma.size() - zeros), shared);
    errors.resize(sigma.size(), 0.0);
    return {.each = std::move(errors), .once = lone_error(found.rounding)};
  }
  // Rounding moves an eigenvalue of a Gram by `sum_terms` roundings of |W|^T |W|, whose norm is at
  // most F2, and the solver by a small multiple of p eps lambda_1; 100 p is twice LAPACK's test
  // threshold. Source: Weyl's inequality; Higham 2002, section 3.5.
  const double error = kEps64 * (situation.sum_terms * report.moments.sum_squares +
                                 100.0 * static_cast<double>(situation.p()) * largest * largest);
  return {.each = std::vector<double>(report.sigma.size(), error)};
}

void set_bounds(const StepResult& found, const StepContext& situation, MatrixReport& report) {
  if (has_top_alone(found, situation)) {
    report.bounds = found.bounds;
  } else if (report.sigma.front() > 0.0) {
    report.bounds = bounds_of_spectrum(report.sigma, square_errors(found, situation, report),
                                       report.moments.sum_squares);
  }
}

void add_reason(const char* text, MatrixReport& report) {
  report.reason += (report.reason.empty() ? "" : "; ") + std::string(text);
}

/// Turns a spectrum into what `fast` reports: the top values and no tail.
void keep_top(const StepContext& situation, MatrixReport& report) {
  report.tail_reliable = false;
  report.sigma.resize(static_cast<std::size_t>(std::min(kFastValues, situation.p())));
}

}  // namespace

std::vector<double> sigma_errors(const StepResult& found, const StepContext& situation) {
  const std::vector<double>& sigma = found.sigma;
  std::vector<double> errors(sigma.size(), kNaN);
  if (sigma.empty()) {
    return errors;
  }
  if (!found.top_errors.empty()) {
    for (std::size_t i = 0; i < sigma.size(); ++i) {
      errors[i] = root_error(sigma[i], found.top_errors[i]);
    }
    return errors;
  }
  if (situation.step == Step::kTop) {
    // Ritz values lie below the eigenvalues, and their sum no further than the bounds say.
    const double width =
        found.bounds.var_at_k_upper.empty()
            ? kNaN
            : found.bounds.var_at_k_upper[kLastBound] - found.bounds.var_at_k_lower[kLastBound];
    for (std::size_t i = 0; i < sigma.size(); ++i) {
      errors[i] = root_error(sigma[i], width * found.moments.sum_squares);
    }
    return errors;
  }
  const auto p = static_cast<double>(sigma.size());
  if (situation.step == Step::kQr && found.tail_errors.empty()) {
    // The triangle takes up the weights block by block, of 256 rows or more.
    const double blocks = static_cast<double>(std::max(situation.rows, situation.cols)) / 256.0;
    std::fill(errors.begin(), errors.end(),
              (p + kRoundingsOfBlocks * std::sqrt(blocks)) * kEps64 * sigma.front());
    return errors;
  }
  // Lines that are zero have no rounding, and none is mixed with them.
  const std::size_t others =
      sigma.size() - std::min(static_cast<std::size_t>(found.zero_rows), sigma.size());
  const std::vector<double> squares =
      eigenvalue_errors(std::span(sigma).first(others), found.rounding);
  for (std::size_t i = 0; i < others; ++i) {
    errors[i] = root_error(sigma[i], squares[i]);
  }
  std::copy(found.tail_errors.begin(), found.tail_errors.end(),
            errors.end() - static_cast<std::ptrdiff_t>(found.tail_errors.size()));
  std::fill(errors.begin() + static_cast<std::ptrdiff_t>(others), errors.end(), 0.0);
  return errors;
}

bool is_tail_enough(std::span<const double> sigma, std::span<const double> errors,
                    const StepContext& situation) {
  const double largest = sigma.front();
  const bool is_modest = sigma.back() * kModestCondition >= largest;
  const std::span<const double> tail = sigma.last(errors.size());
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!is_known(sigma.size() - tail.size() + i, tail[i], errors[i], largest, is_modest,
                  situation)) {
      return false;
    }
  }
  return true;
}

double promised_error(std::size_t i, double s, double largest, bool is_modest) {
  const double absolute =
      is_modest ? (2e-6 + 1e-6 * largest / s) * largest : kDefaultError * largest;
  const double relative = i < kFastValues                   ? 1e-5
                          : s * kModestCondition >= largest ? 2e-4
                                                            : kInfinity;
  return std::min(absolute, relative * s);
}

bool is_modest(const StepResult& found) { return condition_of(found) <= kModestCondition; }

NextStep judge(const StepResult& found, const StepContext& situation, MatrixReport& report) {
  if (!fill_report(found, situation, report)) {
    return {};
  }
  const bool is_measured = report.status == MatrixStatus::kMeasured;
  SpectrumChecks checks;
  std::vector<double> errors;
  if (is_measured) {
    errors = sigma_errors(found, situation);
    checks = checks_of(found, situation, errors);
    if (!has_top_alone(found, situation)) {
      report.check_trace = checks.trace;
      report.check_gram = checks.gram;
    }
    if (situation.mode == SpectrumMode::kFast) {
      errors.resize(static_cast<std::size_t>(std::min(kFastValues, situation.p())), kNaN);
      set_bounds(found, situation, report);
    }
    report.sigma_error = *std::max_element(errors.begin(), errors.end());
  }
  const NextStep verdict = doubt(found, situation, report, checks, errors);
  if (verdict.next) {
    if (verdict.next == Step::kTail) {
      return verdict;
    }
    if (situation.is_strict || situation.escalate) {
      report.escalated = report.escalated || !situation.is_strict;
      report.bounds.reset();
      return verdict;
    }
    report.tail_reliable = false;
    if (is_measured && situation.mode == SpectrumMode::kFast && !checks.refute()) {
      report.reason = "bounds not proved to 1e-5";
    }
  }
  if (checks.refute()) {
    take_refuted(checks, report);
  }
  if (is_measured && situation.mode == SpectrumMode::kFast) {
    keep_top(situation, report);
  }
  return {};
}

void take_refuted(const SpectrumChecks& checks, MatrixReport& report) {
  add_reason(checks.trace_refutes() ? "check_trace refutes the error of the values"
                                    : "check_gram refutes the error of the values",
             report);
  report.sigma_error = std::max(std::sqrt(report.moments.sum_squares), report.sigma.front());
  report.tail_reliable = false;
  if (report.bounds) {
    report.bounds = unproved_bounds();
  }
}

NextStep judge_draw(const StepResult& found, const StepContext& situation) {
  const bool is_lost = found.sigma.empty();
  if (situation.step == Step::kTop && is_lost) {
    return {.next = Step::kGram64};
  }
  const bool may_go_on = situation.step != Step::kQr &&
                         (situation.escalate || situation.mode == SpectrumMode::kStrict);
  const std::vector<double> errors = sigma_errors(found, situation);
  if (may_go_on && !is_lost && checks_of(found, situation, errors).refute()) {
    return after(found, situation, 0);
  }
  if (situation.step == Step::kGram64 && situation.mode == SpectrumMode::kStrict) {
    const std::optional<std::int64_t> lost =
        is_lost ? 0 : lost_beyond_gram64(found, situation, errors);
    if (lost) {
      return {.next = Step::kQr, .lost = *lost};
    }
  }
  return {};
}

}  // namespace vindex::statistics
