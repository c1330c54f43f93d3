// Owns exponential and hyperbolic tangent that compilers turn into vectors (with
// -fno-trapping-math): products, sums and choices only, so that every vector width gives the same
// bits.
#pragma once

#include <cstdint>

namespace vindex {

/// e^x to 2e-7 of itself. 0 below -87; beyond 88.3 what it is there (2.2e38). NaN stays NaN.
/// Source: Cephes expf (Moshier): x = n ln 2 + r, a polynomial in r, 2^n by the exponent's bits.
[[gnu::always_inline]] inline float lane_exp(float x) {
  constexpr float kLowest = -87.0F;
  constexpr float kHighest = 88.3F;
  constexpr float kToBits = 12582912.0F;  // 1.5 2^23: what is added to it loses its fraction
  constexpr std::int32_t kFractionBits = 23;
  const float high = x > kHighest ? kHighest : x;
  const float inside = high < kLowest ? kLowest : high;
  const float shifted = inside * 1.44269504088896341F + kToBits;
  const float n = shifted - kToBits;
  const float r = (inside - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + (r + 1.0F);
  // The low bits of `shifted` are n, and 127 + n is the exponent of 2^n.
  const auto word = __builtin_bit_cast(std::uint32_t, shifted);
  const std::uint32_t exponent = (word - __builtin_bit_cast(std::uint32_t, kToBits)) + 127U;
  const float value = p * __builtin_bit_cast(float, exponent << kFractionBits);
  return x < kLowest ? 0.0F : value;
}

/// tanh(x) to 2e-7 of itself. NaN stays NaN. By its series near 0, where 1 - e^(-2x) has no digits.
[[gnu::always_inline]] inline float lane_tanh(float x) {
  constexpr float kNear = 0.25F;
  const float magnitude = x < 0.0F ? -x : x;
  const float square = x * x;
  float p = 2.1869488e-2F;
  p = p * square - 5.3968254e-2F;
  p = p * square + 1.3333333e-1F;
  p = p * square - 3.3333333e-1F;
  p = p * square + 1.0F;
  const float e = lane_exp(-2.0F * magnitude);
  const float far = (1.0F - e) / (1.0F + e);
  const float signed_far = x < 0.0F ? -far : far;
  return magnitude < kNear ? x * p : signed_far;
}

}  // namespace vindex
