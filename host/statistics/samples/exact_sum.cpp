// Owns the digits of an exact sum.
#include "exact_sum.hpp"

#include <vindex/error.hpp>

#include <bit>
#include <cmath>

namespace vindex::statistics {

void ExactSum::add(double term) {
  if (term == 0.0) {
    return;
  }
  constexpr int kMantissaBits = 52;
  constexpr int kBias = 1023 + kMantissaBits;
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const auto exponent = static_cast<std::int32_t>(bits >> kMantissaBits);
  const std::uint64_t mantissa =
      (bits & ((std::uint64_t{1} << kMantissaBits) - 1)) | (std::uint64_t{1} << kMantissaBits);
  const std::int32_t place = exponent - kBias - kLowestBit;  // of the mantissa's lowest bit
  expects(place >= 0 && term > 0.0 && term < 0x1p400, "ExactSum: a term >= 0 within its range");
  const auto digit = static_cast<std::size_t>(place) / 32;
  const auto shift = static_cast<unsigned>(place) % 32U;
  // 53 bits, moved by less than 32, are at most three digits.
  const std::uint64_t low = mantissa << shift;
  const std::uint64_t high = shift == 0 ? 0 : mantissa >> (64U - shift);
  digits_[digit] += low & 0xFFFFFFFFU;
  digits_[digit + 1] += low >> 32U;
  digits_[digit + 2] += high;
}

double ExactSum::value() const {
  std::array<std::uint64_t, kDigits> digits = digits_;
  std::size_t top = 0;
  for (std::size_t i = 0; i + 1 < kDigits; ++i) {
    digits[i + 1] += digits[i] >> 32U;
    digits[i] &= 0xFFFFFFFFU;
    top = digits[i] != 0 ? i : top;
  }
  top = digits.back() != 0 ? kDigits - 1 : top;
  // Three digits hold 64 bits or more, what is below them is less than 2^-64 of the sum.
  double sum = 0.0;
  for (std::size_t i = top < 2 ? 0 : top - 2; i <= top; ++i) {
    sum += std::ldexp(static_cast<double>(digits[i]), static_cast<int>(32 * i) + kLowestBit);
  }
  return sum;
}

}  // namespace vindex::statistics
