// Owns arithmetic on integers: division rounded up (host and device), conversions of a count from
// std::int64_t, the type of every dimension here, to what a library takes, and arithmetic on
// numbers that come from a file. Every count, length, product, sum and offset read from input goes
// through a checked_*() before it is used: a result that does not fit is an empty optional, never a
// wrapped value.
#pragma once

#include "portable.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace vindex {

/// a / b rounded up, for a >= 0 and b > 0; no sum that could overflow.
VINDEX_HD constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
VINDEX_HD constexpr std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// For BLAS and LAPACK with 32-bit integers. The caller knows that the value fits, here and in
/// as_size(): dimensions are checked where they are read.
constexpr int as_int(std::int64_t value) { return static_cast<int>(value); }

/// For the standard library's containers.
constexpr std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

/// a + b, or nothing where it exceeds 64 bits.
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

/// a * b, or nothing where it exceeds 64 bits.
constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a, std::uint64_t b) {
  std::uint64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? std::nullopt : std::optional(out);
}

/// Product of `factors` (1 for none), or nothing on overflow. A zero factor gives 0 only if no
/// partial product wraps: {2^40, 2^40, 0} is refused, since a later division by that zero would
/// hide the lie.
constexpr std::optional<std::uint64_t> checked_product(std::span<const std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) {
    if (factor == 0) {
      continue;
    }
    const auto next = checked_multiply(product, factor);
    if (!next) {
      return std::nullopt;
    }
    product = *next;
  }
  for (const std::uint64_t factor : factors) {
    if (factor == 0) {
      return 0;
    }
  }
  return product;
}

/// `value` rounded up to a multiple of `alignment` (> 0), or nothing on overflow.
constexpr std::optional<std::uint64_t> checked_round_up(std::uint64_t value,
                                                        std::uint64_t alignment) {
  const std::uint64_t remainder = value % alignment;
  return remainder == 0 ? std::optional(value) : checked_add(value, alignment - remainder);
}

/// `value` as a signed count, or nothing where it exceeds 2^63 - 1.
constexpr std::optional<std::int64_t> checked_count(std::uint64_t value) {
  return value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
             ? std::nullopt
             : std::optional(static_cast<std::int64_t>(value));
}

}  // namespace vindex
