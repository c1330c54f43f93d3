// Owns the elementary functions of the generators. Only +, -, *, / and bit operations on IEEE
// numbers, no libm: the last bits, and so the model's bytes, are the same on every machine.
#pragma once

#include "core/portable.hpp"

#include <cmath>
#include <cstdint>

namespace vindex::synth {

/// Natural logarithm of a positive normal double; error below 1e-15 relative to max(1, |result|).
/// Source: ln m = 2 artanh((m - 1)/(m + 1)), m in [sqrt(1/2), sqrt 2).
inline double portable_log(double value) {
  const auto bits = bits_as<std::int64_t>(value);
  const std::int64_t shifted = bits - 0x3FE6A09E667F3BCD;
  const std::int64_t exponent = shifted >> 52;
  const double m = bits_as<double>(bits - exponent * (std::int64_t{1} << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) {
    sum = sum * z + 1.0 / k;
  }
  return static_cast<double>(exponent) * 0.69314718055994530942 + 2.0 * s * sum;
}

/// e^value for |value| < 700; error below 1e-15 relative.
inline double portable_exp(double value) {
  const double turns = std::floor(value * 1.44269504088896340736 + 0.5);
  // ln 2 in two parts, so that turns * high is exact.
  const double rest = (value - turns * 0x1.62E42FEEp-1) - turns * 0x1.A39EF35793C76p-33;
  double sum = 1.0;
  for (int k = 16; k >= 1; --k) {
    sum = sum * rest / k + 1.0;
  }
  const auto exponent = static_cast<std::int64_t>(turns) + 1023;
  return sum * bits_as<double>(exponent << 52);
}

/// base^exponent for base > 0.
inline double portable_pow(double base, double exponent) {
  return portable_exp(exponent * portable_log(base));
}

}  // namespace vindex::synth
