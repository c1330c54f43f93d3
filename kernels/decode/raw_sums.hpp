// Owns how raw sums of weights are begun, extended and added, for every kernel that takes moments.
#pragma once

#include "decode_matrix.hpp"

#include <cmath>

namespace vindex::kernels {

/// What powers are taken about: the first weight where it is finite.
__host__ __device__ inline double shift_of(float first) {
  return isfinite(first) ? static_cast<double>(first) : 0.0;
}

__host__ __device__ inline RawMoments no_sums() {
  return {0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, HUGE_VAL, -HUGE_VAL, 0.0F};
}

__host__ __device__ inline RawMoments sums_of(float weight, double shift) {
  if (!isfinite(weight)) {
    RawMoments none = no_sums();
    none.nonfinite = 1;
    return none;
  }
  const auto w = static_cast<double>(weight);
  const double d = w - shift;
  const double d2 = d * d;
  return {1, w == 0.0 ? 1 : 0, 0, d, d2, d2 * d, d2 * d2, w * w, w, w, 0.0F};
}

__host__ __device__ inline RawMoments add_sums(const RawMoments& a, const RawMoments& b) {
  return {a.count + b.count,
          a.zeros + b.zeros,
          a.nonfinite + b.nonfinite,
          a.s1 + b.s1,
          a.s2 + b.s2,
          a.s3 + b.s3,
          a.s4 + b.s4,
          a.squares + b.squares,
          a.min < b.min ? a.min : b.min,
          a.max > b.max ? a.max : b.max,
          0.0F};
}

}  // namespace vindex::kernels
