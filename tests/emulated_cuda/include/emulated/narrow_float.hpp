// Owns the rounding of float32 to binary16 and bfloat16, to nearest even, and back.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <emulated/types.hpp>

namespace vindex::emulated {

inline unsigned short half_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint32_t>(bits >> 16U & 0x8000U);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) {
    return 0x7FFF;
  }
  if (magnitude >= 65520.0F) {  // halfway between the largest and what would follow
    return static_cast<unsigned short>(sign | 0x7C00U);
  }
  if (magnitude < 0x1p-14F) {  // multiples of 2^-24; nearbyint rounds ties to even
    return static_cast<unsigned short>(
        sign | static_cast<std::uint32_t>(std::nearbyint(magnitude * 0x1p24F)));
  }
  const std::uint32_t rest = (bits & 0x7FFFFFFFU) - (112U << 23U);
  const std::uint32_t even = rest >> 13U & 1U;
  return static_cast<unsigned short>(sign | (rest + 0xFFFU + even) >> 13U);
}

inline float half_value(unsigned short bits) {
  const std::uint32_t exponent = bits >> 10U & 31U;
  const std::uint32_t mantissa = bits & 1023U;
  float magnitude = 0.0F;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? HUGE_VALF : std::nanf("");
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-24F;
  } else {
    magnitude = std::bit_cast<float>((exponent + 112U) << 23U | mantissa << 13U);
  }
  return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
}

inline unsigned short bfloat_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) {
    return 0x7FFF;
  }
  return static_cast<unsigned short>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

inline float bfloat_value(unsigned short bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

}  // namespace vindex::emulated
