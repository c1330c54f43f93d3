// Owns the numbers that numerical code shares: what is not a number, infinity, machine epsilons,
// what a reflector takes for zero.
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

/// Of a matrix whose entries are below 1, reduced in Real: the squared norm below which what stands
/// under a pivot counts as zero and gets no reflector I - tau v v^T. Smaller sums of squares have
/// lost terms or digits to underflow; tau and v made of them disagree, so that the reflector is not
/// orthogonal and damages all that is left, however little it was to clear; and 1 / |x| overflows
/// float32. What is dropped is 2^-40 or 2^-400 of the largest entry, far below its rounding.
template <typename Real>
inline constexpr double kNegligibleSquare = sizeof(Real) == sizeof(float) ? 0x1p-80 : 0x1p-800;

}  // namespace vindex
