// Owns the steps around the judgement: eigenvalues into findings, tails into spectra, which inputs
// are refused or belong together, which reports get draws and vectors.
#include "judgement.hpp"

#include "core/constants.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace vindex::statistics {

double gram64_square_error(std::span<const double> sigma) {
  return 50.0 * static_cast<double>(sigma.size()) * kEps64 * sigma.front() * sigma.front();
}

bool is_tail_of(std::span<const double> tail, std::span<const double> sigma, double allowed) {
  if (tail.empty() || tail.size() > sigma.size()) {
    return false;
  }
  const std::span<const double> from_gram = sigma.last(tail.size());
  for (std::size_t i = 0; i < tail.size(); ++i) {
    if (!(std::abs(tail[i] * tail[i] - from_gram[i] * from_gram[i]) <= allowed)) {
      return false;
    }
  }
  if (sigma.size() == tail.size()) {
    return true;
  }
  const double above = sigma[sigma.size() - tail.size() - 1];
  return tail.front() * tail.front() <= above * above + allowed;
}

bool begin_draws(const MeasureOptions& options, const SignFlipCollector& collector,
                 MatrixReport& report) {
  if (options.sign_flip_draws == 0 || report.status != MatrixStatus::kMeasured) {
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
  if (options.vectors == 0 || report.status != MatrixStatus::kMeasured) {
    return false;
  }
  report.vectors = SingularVectors{};
  return report.moments.max_abs() > 0.0;
}

bool is_refused(const MatrixInput& input, MatrixReport& report) {
  if (!decode::is_decodable(input.encoding())) {
    report.status = MatrixStatus::kUnsupported;
    report.reason = "encoding " + input.encoding().label + " cannot be decoded";
    return true;
  }
  if (input.rows() <= 0 || input.cols() <= 0) {
    report.status = MatrixStatus::kFailed;
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

void take_eigenvalues(const RawSpectrum& raw, StepResult& found) {
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

// What becomes of values found on a subspace. With r the residual of s^2 and gap the distance
// from s^2 to the smallest eigenvalue that the settled part of the basis leaves out, less what that
// is known to:
//
//   error of s^2 = min(|r|, 2 |r|^2 / gap) + rounding of the pass      (Kato; Temple)
//   error of s   = that by root_error(), plus p eps64 s_1
//
// A value counts as settled where its square is within what the Gram's spectrum is known to of the
// value in its place. If fewer are settled than were lost, the search found other vectors, and
// nothing is taken.

namespace {

/// How many of the smallest values of the basis are those of `before`, squares within `allowed`.
std::int64_t settled_values(const TailBasis& basis, const StepResult& before, double allowed) {
  std::int64_t settled = 0;
  auto known = before.sigma.rbegin();
  for (auto own = basis.sigma.rbegin(); own != basis.sigma.rend() && settled < basis.max_settled;
       ++own, ++known, ++settled) {
    if (!(std::abs(*own * *own - *known * *known) <= allowed)) {
      break;
    }
  }
  return settled;
}

}  // namespace

bool take_tail(const TailBasis& basis, std::int64_t lost, const StepResult& before,
               StepResult& found) {
  const auto p = static_cast<std::int64_t>(before.sigma.size());
  const double largest = before.sigma.front();
  const double square_error = matrix_error(p, largest,
                                           {.entry = before.rounding.entry,
                                            .lone = before.rounding.lone,
                                            .blocks = before.rounding.blocks});
  found.sigma = before.sigma;
  found.tail_errors.clear();
  // Twice what the Gram's values are known to: it and a first pass may lie on either side.
  const std::int64_t settled = settled_values(basis, before, 2.0 * square_error);
  if (settled < lost) {
    return false;
  }
  // The smallest eigenvalue that the settled part of the basis leaves out, less what it is known
  // to.
  const double next = settled < p ? before.sigma[static_cast<std::size_t>(p - settled - 1)]
                                  : std::numeric_limits<double>::infinity();
  const double beyond = next * next - square_error;
  const double floor = static_cast<double>(p) * kEps64 * largest;
  std::vector<std::pair<double, double>> values;  // value, error
  for (std::size_t j = basis.sigma.size() - static_cast<std::size_t>(lost); j < basis.sigma.size();
       ++j) {
    const double value = basis.sigma[j];
    const double residual = basis.residuals[j];
    const double gap = beyond - value * value;
    const double by_gap = gap > 0.0 ? 2.0 * residual * residual / gap : residual;
    const double rounding = basis.square_errors.empty() ? 0.0 : basis.square_errors[j];
    const double error = std::min(residual, by_gap) + rounding;
    values.emplace_back(value, floor + root_error(value, error));
  }
  const std::size_t first = found.sigma.size() - values.size();
  // A value that comes out above the one before it changes places with it.
  const double crossing =
      first > 0 ? std::max(values.front().first - before.sigma[first - 1], 0.0) : 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    found.sigma[first + i] = values[i].first;
    found.tail_errors.push_back(values[i].second + crossing);
  }
  std::sort(found.sigma.begin(), found.sigma.end(), std::greater<>());
  return true;
}

}  // namespace vindex::statistics
