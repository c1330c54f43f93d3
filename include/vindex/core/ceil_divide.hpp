// Owns division rounded up, for host and device.
#pragma once

#include <vindex/core/portable.hpp>

#include <cstdint>

namespace vindex {

/// a / b rounded up, for a >= 0 and b > 0; no sum that could overflow.
VINDEX_HD constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}
VINDEX_HD constexpr std::uint64_t ceil_divide(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace vindex
