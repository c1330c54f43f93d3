// Owns leading minors of T - x I, for many x at once.
#pragma once

#include "cpu/simd/simd_level.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Shifts per call are padded to a multiple of this.
inline constexpr std::int64_t kSturmLanes = 32;

/// One unreduced symmetric tridiagonal block, scaled so that its norm is at most 2.
/// `off_squared[i]` couples rows i-1 and i; off_squared[0] = 0, all others >= 2^-110.
struct TridiagonalBlock {
  const double* diagonal = nullptr;
  const double* off_squared = nullptr;
  std::int64_t size = 0;
};

/// det(T - x I) = mantissa * 2^exponent for each shift, and, where `counts` is not null, the number
/// of eigenvalues below it (sign changes in the sequence of leading minors; Barth, Martin,
/// Wilkinson 1967, in product form with rescaling every 16 rows instead of quotients, which saves
/// the division).
/// Shapes    shifts, mantissas, exponents, counts: shift_count, a multiple of kSturmLanes.
/// Accuracy  results are those of a matrix whose entries differ by a few eps64 relative from T's.
/// Speed     all levels give the same bits: no fused multiply-add in any of them.
void sturm_minors(const TridiagonalBlock& block, std::int64_t shift_count, const double* shifts,
                  double* mantissas, std::int64_t* exponents, std::int64_t* counts,
                  SimdLevel level);

}  // namespace vindex::cpu
