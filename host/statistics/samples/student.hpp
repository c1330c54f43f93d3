// Owns Student's distribution: the chances of its tails, and the 97.5 % point that 95 % intervals
// take.
#pragma once

namespace vindex::statistics {

/// Probability that abs(T) >= abs(t), T of Student's distribution with `freedom` >= 1 degrees of
/// freedom: the incomplete beta function I_x(freedom/2, 1/2) at x = freedom/(freedom + t^2), to
/// 1e-11 of its value for freedom up to 1000. NaN for a t that is.
/// Source: Abramowitz and Stegun 26.5.8 and 26.7.1.
double student_two_sided(double t, double freedom);

/// 97.5 % point of Student's distribution, `freedom` >= 1, whole or not, to 1e-11 of it.
double student_quantile(double freedom);

}  // namespace vindex::statistics
