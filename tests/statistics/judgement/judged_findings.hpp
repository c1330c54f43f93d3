// Owns findings and situations by hand, for tests of the judgement.
#pragma once
#include "statistics/judgement/step_result.hpp"

#include <cstdint>
#include <vector>

namespace vindex::statistics {

/// What a sound step finds in a matrix with these singular values, by a Gram whose entries are
/// rounded by `entry` in units of s_1^2.
inline StepResult found_with(const std::vector<double>& sigma, double entry = 0.0) {
  StepResult found;
  found.sigma = sigma;
  found.moments.count = 1;
  found.moments.max = 1.0;
  found.moments.min = -1.0;
  found.gram_norm_squared = 0.0;
  for (const double s : sigma) {
    found.moments.sum_squares += s * s;
    found.gram_norm_squared += s * s * s * s;
  }
  found.method = "some method";
  found.rounding.entry = entry * sigma.front() * sigma.front();
  return found;
}

inline StepContext at(Step step, SpectrumMode mode, bool escalate = true, std::int64_t p = 2) {
  return {.step = step,
          .rows = p,
          .cols = 10 * p,
          .mode = mode,
          .escalate = escalate,
          .is_strict = mode == SpectrumMode::kStrict,
          .sum_terms = 100.0};
}
inline StepContext with_tail(StepContext situation, std::int64_t most,
                             Step before = Step::kGram32) {
  situation.max_tail_values = most;
  situation.before = before;
  return situation;
}

}  // namespace vindex::statistics
