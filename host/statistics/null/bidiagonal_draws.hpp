// Owns the singular values of small bidiagonal matrices, several at a time: a step of one waits for
// a division after the other.
#pragma once
#include "decode/simd_level.hpp"

#include <array>
#include <cstddef>

namespace vindex::statistics {

/// Upper bidiagonal matrices of one size, one in each lane, by the squares of their elements.
struct BidiagonalDraws {
  static constexpr std::size_t kLanes = 8;
  static constexpr std::size_t kMaxSize = 63;
  using Row = std::array<double, kLanes>;

  std::size_t size = 0;                                ///< 1 .. kMaxSize
  alignas(64) std::array<Row, kMaxSize> squares = {};  ///< of the diagonals
  alignas(64) std::array<Row, kMaxSize> above = {};    ///< of the other diagonals, one shorter
};

/// Replaces `squares` by the squared singular values of each lane, in any order, with all their
/// digits however small they are; `above` is lost. The bits of a lane depend neither on the other
/// lanes nor on the processor.
void find_squared_values(BidiagonalDraws& draws);
/// The same with the instructions of a level that this processor has, for tests.
void find_squared_values_at(decode::SimdLevel level, BidiagonalDraws& draws);

}  // namespace vindex::statistics
