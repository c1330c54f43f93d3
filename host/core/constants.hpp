// Owns the numbers that numerical code shares: what is not a number, infinity, machine epsilons.
#pragma once

#include <limits>
#include <numbers>

namespace vindex {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Spacing of the numbers at 1 (machine epsilon); the unit roundoff is half of it.
inline constexpr double kEps64 = 0x1p-52;
inline constexpr double kEps32 = 0x1p-23;

inline constexpr double kDegreesPerRadian = 180.0 / std::numbers::pi;

}  // namespace vindex
