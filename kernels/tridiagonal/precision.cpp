// Owns the reasons. A float32 chase rounds every entry once per sweep and side, which makes its
// error some three times that of the float32 reduction before it and 0.05 of what is promised of
// noise. What it leaves too little of are relative promises of the smallest values of dense spectra
// with a condition of 100 and more, clusters and lines of unequal norm, which are what may_stand()
// sees. Where noise itself has values near zero, because the shape is square or
// nearly so, the smallest values of nearly every matrix would be computed twice. A tail finds them
// again anyway; but of 4096 x 4096 noise it would have to find 230 and not 100 of them, and 135 and
// not 52 of a power law above noise, which costs about what the chase saves, and nears the limit of
// what a tail takes (256).
#include "precision.hpp"

#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/judgement.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {
namespace {

constexpr double kUnit32 = 0x1p-24;

/// Of a promise, what is answered for: errors that occur are at most 0.29 of that
/// (tests/kernels/tridiagonal/stage_accuracy_long_test.cpp), and so a quarter of the promise.
constexpr double kShare = 0.85;
/// Errors that grow by less than this through float32 stages are not theirs.
constexpr double kGrowth = 1.25;

/// A situation in which doubt always asks for a step, as without --no-escalate.
statistics::StepContext with_escalation(statistics::StepContext situation) {
  situation.escalate = true;
  return situation;
}

}  // namespace

statistics::GramArithmetic with_stages(statistics::GramArithmetic gram, bool is_float32,
                                       const StagePrecision& stages, int sweeps) {
  if (!is_float32) {
    gram.chase = {.unit = 0x1p-53, .roundings = statistics::kChase32.roundings};
    return gram;
  }
  gram.chase = stages.chase32 ? statistics::kChase32 : statistics::stored_chase32(sweeps);
  gram.values_unit = stages.values32 ? kUnit32 : 0.0;
  return gram;
}

double share_of_noise(std::int64_t rows, std::int64_t cols, const StagePrecision& stages) {
  const auto p = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  // In units of s_1^2 = (sqrt(n) + sqrt(p))^2; sums of squares and fourth powers of noise.
  const double largest = std::pow(std::sqrt(n) + std::sqrt(p), 2.0);
  statistics::GramNorms norms = {.sum_squares = p * n / largest,
                                 .gram_norm_squared = p * n * (n + p) / (largest * largest)};
  norms.passes_norm_squared =
      statistics::passes_norm_squared(static_cast<std::int64_t>(p), norms.gram_norm_squared);
  const statistics::Rounding rounding =
      statistics::gram_rounding(with_stages({.unit = 0.0, .reduction_unit = 0.0}, true, stages, 1),
                                static_cast<std::int64_t>(p), static_cast<std::int64_t>(n), norms);
  const double smallest = 1.0 / statistics::noise_condition(rows, cols);
  const bool is_modest = smallest * statistics::kModestCondition >= 1.0;
  double share = 0.0;
  // No more than a few values of noise lie within such errors of each other.
  for (const double s : {1.0, smallest}) {
    const double error = statistics::root_error(
        s, statistics::largest_errors(std::vector<double>{s * s}, 1, rounding).front());
    const std::size_t place = s == 1.0 ? 0 : static_cast<std::size_t>(p) - 1;
    share = std::max(share, error / statistics::promised_error(place, s, 1.0, is_modest));
  }
  return share;
}

StagePrecision choose_stages(const StageTask& task) {
  if (!task.is_float32) {
    return {};
  }
  const bool is_slow = !has_fast_float64(task.device);
  const auto may = [&](const StagePrecision& stages) {
    return is_slow || task.is_fast || share_of_noise(task.rows, task.cols, stages) <= kShare;
  };
  StagePrecision stages;
  stages.chase32 = task.newer.chase32 && may({.chase32 = true});
  stages.values32 = task.newer.values32 && may({.chase32 = stages.chase32, .values32 = true});
  return stages;
}

bool may_stand(const statistics::StepResult& found, const statistics::Rounding& before,
               const statistics::StepContext& situation, bool is_draw) {
  const statistics::StepContext asked = with_escalation(situation);
  MatrixReport report;
  const statistics::NextStep verdict =
      is_draw ? statistics::judge_draw(found, asked) : statistics::judge(found, asked, report);
  if (verdict.next) {
    return false;
  }
  if (is_draw || situation.mode == SpectrumMode::kFast || found.sigma.empty() ||
      !(found.sigma.front() > 0.0)) {
    return true;
  }
  const std::vector<double> errors = statistics::sigma_errors(found, asked);
  const bool is_modest = statistics::is_modest(found);
  const std::size_t count = found.sigma.size() - static_cast<std::size_t>(found.zero_rows);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < count; ++i) {
    if (errors[i] >
        kShare * statistics::promised_error(i, found.sigma[i], found.sigma.front(), is_modest)) {
      open.push_back(i);
    }
  }
  if (open.empty()) {
    return true;
  }
  statistics::StepResult wide = found;
  wide.rounding = before;
  const std::vector<double> others = statistics::sigma_errors(wide, asked);
  return std::none_of(open.begin(), open.end(),
                      [&](std::size_t i) { return errors[i] > kGrowth * others[i]; });
}

}  // namespace vindex::kernels
