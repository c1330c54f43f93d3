// Owns the random signs of the sign-flip null (metrics contract): Philox4x32-10 (core/philox.hpp)
// keyed by the matrix, one bit per weight.
#pragma once

#include <cstdint>

namespace vindex::cpu {

/// Where the signs of a rectangle come from.
struct SignFlipPlace {
  std::uint64_t key = 0;   ///< low 32 bits are key word 0
  std::uint64_t draw = 0;  ///< upper 64 bits of the counter
  bool transposed = false;
  std::int64_t whole_rows = 0;  ///< of the matrix as stored
  std::int64_t whole_cols = 0;
  std::int64_t first_row = 0;  ///< of the rectangle, as stored
  std::int64_t first_col = 0;
};

/// Negates in place the weights of a rows x cols rectangle (row-major, `stride` floats between
/// rows) whose bit is 1: bit i mod 128 (word 0 first, least significant bit first) of counter i div
/// 128 for the logical row-major element i, `draw` being the counter's upper half.
void flip_signs(float* values, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                const SignFlipPlace& place);

}  // namespace vindex::cpu
