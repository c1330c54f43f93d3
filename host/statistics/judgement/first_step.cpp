// Owns the choice between float32 and float64 before anything is computed.
#include "first_step.hpp"

#include "judgement.hpp"
#include "step_result.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::statistics {

double noise_condition(std::int64_t rows, std::int64_t cols) {
  const double n = std::sqrt(static_cast<double>(std::max(rows, cols)));
  const auto p = static_cast<double>(std::min(rows, cols));
  return (n + std::sqrt(p)) / (n - std::sqrt(p - 1.0));
}

bool begins_in_float64(std::int64_t rows, std::int64_t cols, const MeasureOptions& options,
                       std::int64_t max_tail_values) {
  constexpr double kMargin = 1.25;
  // A route that was asked for by name is taken.
  const bool is_small = options.svd_route == "auto" && std::min(rows, cols) <= kFloat64Size;
  if (options.mode != SpectrumMode::kDefault) {
    return options.mode == SpectrumMode::kFast && is_small;
  }
  return options.escalate && (is_small || (max_tail_values == 0 && noise_condition(rows, cols) >
                                                                       kMargin * kModestCondition));
}

StepContext begin_measurement(Step first, std::int64_t rows, std::int64_t cols,
                              const MeasureOptions& options, const BackEndReach& reach) {
  const bool at_once =
      first == Step::kGram32 && begins_in_float64(rows, cols, options, reach.max_tail_values);
  return {.step = at_once ? Step::kGram64 : first,
          .rows = rows,
          .cols = cols,
          .mode = options.mode,
          .escalate = options.escalate,
          .is_strict = options.mode == SpectrumMode::kStrict,
          .sum_terms = reach.sum_terms,
          .max_tail_values = reach.max_tail_values,
          .tail_leaves_zeros = reach.tail_leaves_zeros};
}

StepContext next_step_context(const StepContext& situation, Step next) {
  StepContext out = situation;
  out.before = situation.step;
  out.step = next;
  return out;
}

StepContext begin_draw(Step first, std::int64_t rows, std::int64_t cols,
                       const MeasureOptions& options) {
  StepContext situation = begin_measurement(first, rows, cols, options, {});
  situation.step = first;
  return situation;
}

}  // namespace vindex::statistics
