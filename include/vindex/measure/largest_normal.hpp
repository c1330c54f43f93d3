// Owns the law of the largest of many independent normal numbers.
#pragma once

namespace vindex::measure {

struct LargestNormal {
  double mean = 0.0, deviation = 1.0;
};

/// Mean and standard deviation of the largest of `count` (at least 1) independent standard normal
/// numbers, by quadrature to 1e-10: with t = count x (-ln of the distribution function at the
/// largest), which is exponential, both are integrals of exp(-t). 0 and 1 for one number.
LargestNormal largest_normal(double count);

}  // namespace vindex::measure
