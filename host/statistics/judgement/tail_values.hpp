// Owns putting the smallest values of a spectrum again, where they were found better.
#pragma once

#include "step_result.hpp"

#include <cstdint>
#include <span>

namespace vindex::statistics {

/// Whether `tail` can be the smallest values of a spectrum that a Gram gave as `sigma`, so that
/// they may replace its last ones: squares agree to within `allowed`.
bool is_tail_of(std::span<const double> tail, std::span<const double> sigma, double allowed);
/// What a float64 Gram's squares are known to: 50 p eps64 s_1^2.
double gram64_square_error(std::span<const double> sigma);

/// One pass over the weights on a subspace near the smallest singular vectors. Arrays descend.
struct TailBasis {
  std::span<const double> sigma = {};      ///< singular values of W on it
  std::span<const double> residuals = {};  ///< |W^T W v - s^2 v| of each
  std::int64_t max_settled = 0;            ///< of the smallest; the others guard them
  /// Of each s^2, by the arithmetic of the pass; empty: nothing worth adding.
  std::span<const double> square_errors = {};
};

/// Puts the last `lost` values of `before` in `found` again, and `tail_errors`; all others are
/// those of `before`. False where the basis contradicts `before`, a spectrum with a known rounding:
/// `found` is then `before` and has no tail_errors.
bool take_tail(const TailBasis& basis, std::int64_t lost, const StepResult& before,
               StepResult& found);

}  // namespace vindex::statistics
