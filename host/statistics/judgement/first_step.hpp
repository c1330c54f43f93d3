// Owns where the measurement of a matrix begins, and the context of every step.
#pragma once

#include "step_result.hpp"

#include "backend/backend.hpp"

#include <cstdint>

namespace vindex::statistics {

/// s_1 / s_p of a rows x cols matrix of pure noise: the edges sqrt(n) +- sqrt(p) of its spectrum,
/// the lower one with p - 1, which is the size of the smallest value of a square matrix too (n = p:
/// 4 p here, a median of 3.7 p for large p). For n > p it lies above the median of drawn noise,
/// most where n is nearest to p: by a fifth for p = 64 and more, by somewhat less than a third for
/// p = 16. Source: Rudelson and Vershynin, "Smallest singular value of a random rectangular matrix"
/// (2009); Edelman (1988) for n = p.
double noise_condition(std::int64_t rows, std::int64_t cols);

/// True where `fast` and `default` begin in float64: a short side up to kFloat64Size, unless a
/// route was asked for by name; or, of `default` where the back end has no kTail, a shape whose
/// noise already, which is better conditioned than what training leaves, lies so far beyond
/// kModestCondition that a float32 step would be thrown away.
bool begins_in_float64(std::int64_t rows, std::int64_t cols, const MeasureOptions& options,
                       std::int64_t max_tail_values);

/// What a back end says of itself.
struct BackEndReach {
  double sum_terms = 0.0;            ///< of StepContext
  std::int64_t max_tail_values = 0;  ///< of StepContext
  bool tail_leaves_zeros = false;    ///< of StepContext
};

/// Where the measurement of a rows x cols matrix begins if `first` is the first step of the back
/// end's route for that mode: there, or at kGram64 by begins_in_float64().
StepContext begin_measurement(Step first, std::int64_t rows, std::int64_t cols,
                              const MeasureOptions& options, const BackEndReach& reach);

/// The context of the step that a NextStep asks for.
StepContext next_step_context(const StepContext& situation, Step next);

/// The context of a draw of the sign-flip null, which begins with `first` whatever the shape and is
/// not escalated: nothing that is kept of it depends on its smallest values. QR is a part of
/// `strict`.
StepContext begin_draw(Step first, std::int64_t rows, std::int64_t cols,
                       const MeasureOptions& options);

}  // namespace vindex::statistics
