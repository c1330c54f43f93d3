#include <vindex/measure/judgement.hpp>
#include <vindex/measure/spectrum_bounds.hpp>

#include <algorithm>
#include <cmath>
#include <functional>

namespace vindex::measure {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps64 = 0x1p-52;

void set_checks(MatrixReport& report) {
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

bool checks_alarm(const MatrixReport& report) {
  return report.check_trace > kCheckAlarm || report.check_gram > kCheckAlarm;
}

double condition_of(const std::vector<double>& sigma) {
  return sigma.back() > 0.0 ? sigma.front() / sigma.back()
                            : std::numeric_limits<double>::infinity();
}

double reach_of_gram64(const std::vector<double>& sigma) {
  return kStrictConditionPerSize * static_cast<double>(sigma.size());
}

/// A negative eigenvalue, or a condition, exact zeros aside, beyond 10 p.
bool is_beyond_gram64(const Finding& found) {
  const std::vector<double>& sigma = found.sigma;
  const auto p = static_cast<std::int64_t>(sigma.size());
  if (found.negative || found.zero_rows >= p) {
    return found.negative;
  }
  const double smallest = sigma[static_cast<std::size_t>(p - found.zero_rows - 1)];
  return !(sigma.front() <= reach_of_gram64(sigma) * smallest);
}

Verdict by_qr(const Finding& found, bool others_are_good) {
  Verdict verdict = {.next = Step::kQr};
  if (others_are_good && !found.sigma.empty()) {
    const double least = 2.0 * found.sigma.front() / reach_of_gram64(found.sigma);
    verdict.lost = std::count_if(found.sigma.begin(), found.sigma.end(),
                                 [&](double value) { return value < least; });
  }
  return verdict;
}

/// Everything but what comes of doubt. False where there is nothing to doubt.
bool fill_report(const Finding& found, const Situation& situation, MatrixReport& report) {
  report.method = found.method;
  report.moments = found.moments;
  report.gram_norm_squared = found.gram_norm_squared;
  report.check_trace = report.check_gram = kNaN;
  report.bounds.reset();
  report.sigma.clear();
  if (found.moments.nonfinite > 0) {
    report.status = Status::kNotFinite;
    report.reason = std::to_string(found.moments.nonfinite) + " weights are not finite";
    report.gram_norm_squared = kNaN;
    return false;
  }
  if (found.moments.max_abs() == 0.0) {
    report.status = Status::kMeasured;
    report.reason = "zero matrix";
    const std::int64_t p = situation.p();
    report.sigma.assign(
        static_cast<std::size_t>(situation.mode == Mode::kFast ? std::min(kFastValues, p) : p),
        0.0);
    return false;
  }
  if (found.sigma.empty()) {
    report.status = Status::kNotConverged;
    report.reason = "the eigenvalue iteration did not converge";
    return true;
  }
  report.status = Status::kMeasured;
  report.reason.clear();
  report.sigma = found.sigma;
  if (situation.step != Step::kTop) {
    set_checks(report);
  }
  return true;
}

bool is_doubtful(const Finding& found, const Situation& situation, const MatrixReport& report) {
  const bool is_lost = report.status == Status::kNotConverged;
  switch (situation.step) {
    case Step::kTop:
      return is_lost || !is_tight(found.bounds);
    case Step::kGram32:
      return is_lost || found.negative || checks_alarm(report) ||
             condition_of(report.sigma) > kEscalationCondition;
    case Step::kGram64:
      return is_lost ||
             (situation.mode != Mode::kFast && (checks_alarm(report) || is_beyond_gram64(found)));
    case Step::kQr:
      break;
  }
  return false;
}

/// Turns a spectrum into what `fast` reports: the top values between bounds, and no tail.
void keep_top(const Finding& found, const Situation& situation, MatrixReport& report) {
  report.tail_reliable = false;
  if (situation.step == Step::kTop) {
    report.bounds = found.bounds;
    return;
  }
  const double largest = report.sigma.front();
  if (largest > 0.0) {
    // Rounding moves an eigenvalue of a Gram by `sum_terms` roundings of |W|^T |W|, whose norm is
    // at most F2, and the solver by a small multiple of p eps lambda_1; 100 p is twice LAPACK's
    // test threshold. Source: Weyl's inequality; Higham 2002, section 3.5.
    const double sum_squares = report.moments.sum_squares;
    const double error = kEps64 * (situation.sum_terms * sum_squares +
                                   100.0 * static_cast<double>(situation.p()) * largest * largest);
    report.bounds = bounds_of_spectrum(report.sigma, error, sum_squares);
  }
  report.sigma.resize(static_cast<std::size_t>(std::min(kFastValues, situation.p())));
}

}  // namespace

double noise_condition(std::int64_t rows, std::int64_t cols) {
  const double n = std::sqrt(static_cast<double>(std::max(rows, cols)));
  const auto p = static_cast<double>(std::min(rows, cols));
  return (n + std::sqrt(p)) / (n - std::sqrt(p - 1.0));
}

bool is_strict_by_shape(std::int64_t rows, std::int64_t cols, const MeasureOptions& options) {
  constexpr double kMargin = 1.25;
  return options.mode == Mode::kDefault && options.escalate &&
         noise_condition(rows, cols) > kMargin * kEscalationCondition;
}

Situation begin_measurement(Step first, std::int64_t rows, std::int64_t cols,
                            const MeasureOptions& options, double sum_terms) {
  const bool at_once = first == Step::kGram32 && is_strict_by_shape(rows, cols, options);
  return {.step = at_once ? Step::kGram64 : first,
          .rows = rows,
          .cols = cols,
          .mode = options.mode,
          .escalate = options.escalate,
          .is_strict = at_once || options.mode == Mode::kStrict,
          .sum_terms = sum_terms};
}

Verdict judge(const Finding& found, const Situation& situation, MatrixReport& report) {
  if (!fill_report(found, situation, report)) {
    return {};
  }
  const bool is_measured = report.status == Status::kMeasured;
  if (is_doubtful(found, situation, report)) {
    if (situation.is_strict || situation.escalate) {
      report.escalated = report.escalated || !situation.is_strict;
      return situation.step == Step::kGram64 ? by_qr(found, !checks_alarm(report))
                                             : Verdict{.next = Step::kGram64};
    }
    report.tail_reliable = false;
    if (is_measured && situation.step == Step::kTop) {
      report.reason = "bounds not proved to 1e-5";
    }
  }
  if (is_measured && situation.mode == Mode::kFast) {
    keep_top(found, situation, report);
  }
  return {};
}

Situation begin_draw(Step first, std::int64_t rows, std::int64_t cols,
                     const MeasureOptions& options) {
  Situation situation = begin_measurement(first, rows, cols, options, 0.0);
  situation.step = first;
  return situation;
}

Verdict judge_draw(const Finding& found, const Situation& situation) {
  const bool is_lost = found.sigma.empty();
  if (situation.step == Step::kTop && is_lost) {
    return {.next = Step::kGram64};
  }
  if (situation.step == Step::kGram64 && situation.mode == Mode::kStrict &&
      (is_lost || is_beyond_gram64(found))) {
    return by_qr(found, true);
  }
  return {};
}

bool is_tail_of(std::span<const double> tail, std::span<const double> sigma) {
  if (tail.empty()) {
    return false;
  }
  const double largest = sigma.front();
  const double allowed = 50.0 * static_cast<double>(sigma.size()) * kEps64 * largest * largest;
  for (std::size_t i = 0; i < tail.size(); ++i) {
    const double from_gram = sigma[sigma.size() - tail.size() + i];
    if (!(std::abs(tail[i] * tail[i] - from_gram * from_gram) <= allowed)) {
      return false;
    }
  }
  return sigma.size() == tail.size() ||
         tail.front() <= sigma[sigma.size() - tail.size() - 1] + allowed / largest;
}

bool begin_draws(const MeasureOptions& options, const SignFlipCollector& collector,
                 MatrixReport& report) {
  if (options.sign_flip_draws == 0 || report.status != Status::kMeasured) {
    return false;
  }
  report.sign_flip.emplace();
  if (report.moments.max_abs() > 0.0) {
    return true;
  }
  for (std::int32_t draw = 0; draw < options.sign_flip_draws; ++draw) {
    collector.add(report.sigma, 0.0, *report.sign_flip);
  }
  return false;
}

bool begin_vectors(const MeasureOptions& options, MatrixReport& report) {
  if (options.vectors == 0 || report.status != Status::kMeasured) {
    return false;
  }
  report.vectors = SingularVectors{};
  return report.moments.max_abs() > 0.0;
}

bool is_refused(const MatrixInput& input, MatrixReport& report) {
  if (!decode::is_decodable(input.encoding())) {
    report.status = Status::kUnsupported;
    report.reason = "encoding " + input.encoding().label + " cannot be decoded";
    return true;
  }
  if (input.rows() <= 0 || input.cols() <= 0) {
    report.status = Status::kFailed;
    report.reason = "the matrix is empty";
    return true;
  }
  return false;
}

bool is_same_kind(const InputKind& a, const InputKind& b) {
  return a.rows == b.rows && a.cols == b.cols && a.transposed == b.transposed &&
         (a.encoding == b.encoding || a.encoding->label == b.encoding->label);
}

bool is_same_kind(const MatrixInput& a, const MatrixInput& b) {
  const auto kind = [](const MatrixInput& input) {
    return InputKind{input.rows(), input.cols(), input.transposed(), &input.encoding()};
  };
  return is_same_kind(kind(a), kind(b));
}

void take_eigenvalues(const RawSpectrum& raw, Finding& found) {
  found.zero_rows = raw.zero_rows + raw.left_out;
  std::vector<double> values(raw.eigenvalues.begin(), raw.eigenvalues.end());
  const std::size_t count = values.size() + static_cast<std::size_t>(raw.left_out);
  if (raw.failed ||
      !std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) {
    return;
  }
  if (raw.zero_rows > 0) {
    // A zero row is an eigenvalue 0 that the solver returns as rounding noise: those nearest to 0
    // are taken out and put back as what they are.
    std::sort(values.begin(), values.end(),
              [](double a, double b) { return std::abs(a) > std::abs(b); });
    values.resize(values.size() - std::min(values.size(), static_cast<std::size_t>(raw.zero_rows)));
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  found.negative = !values.empty() && values.back() < 0.0;
  // sqrt(2^e x) = 2^(e/2) sqrt(x) for even e.
  const int odd = raw.exponent % 2 != 0 ? 1 : 0;
  const int half = (raw.exponent - odd) / 2;
  for (const double value : values) {
    found.sigma.push_back(std::ldexp(std::sqrt(std::ldexp(std::max(value, 0.0), odd)), half));
  }
  found.sigma.resize(count, 0.0);
}

}  // namespace vindex::measure
