// Owns roots and quotients of normal numbers without the branches that CUDA's own have for others:
// what Householder reflections and Cholesky factors wait for.
#pragma once

#include <cuda_runtime.h>

#include <intrinsics.hpp>

namespace vindex::kernels::device {

/// 1 / sqrt(value) of a positive normal number, to an ulp: a root of 20 bits has an exact square,
/// so that e = 1 - value root^2 is right to its last bits, and what the step leaves is 5 e^3 / 16.
__device__ inline double inverse_root(double value) {
  const double root = rough_inverse_root(value);
  const double e = fma(-value, root * root, 1.0);
  return fma(root * e, fma(0.375, e, 0.5), root);
}
__device__ inline float inverse_root(float value) {
  const float root = rough_inverse_root(value);  // to two
  return fmaf(0.5F * root, fmaf(-value * root, root, 1.0F), root);
}

/// 1 / value of a positive normal number, to an ulp.
__device__ inline double reciprocal(double value) {
  const double inverse = rough_reciprocal(value);
  const double e = fma(-value, inverse, 1.0);
  return fma(inverse, fma(e, e, e), inverse);
}
__device__ inline float reciprocal(float value) {
  const float inverse = rough_reciprocal(value);
  return fmaf(inverse, fmaf(-value, inverse, 1.0F), inverse);
}

}  // namespace vindex::kernels::device
