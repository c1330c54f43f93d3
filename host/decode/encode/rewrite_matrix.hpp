// Owns writing edited weights back to the bytes they came from. What did not change keeps its
// bytes:
//   plain numbers   (F64 F32 F16 BF16) a weight whose bits are the same
//   blocks, groups  (every other decodable encoding) a block in which no weight's bits changed
// Where a block changed, its scale stays while its codes can hold the new weights: each of those is
// within half a step of a code, and a new scale would not be less than half of it and halve the
// block's rounding error (weights that became much smaller). Weights that did not change are then
// the same to the bit, and a change below half a step leaves the bytes as they were. Else the block
// is encoded anew by decode/encode/encode.hpp's encoder (fp8: or under a power of two times its
// scale, where that is nearer), unless the nearest of its old codes are nearer. No block is ever
// farther from the new weights than if it had been left alone.
#pragma once
#include "decode/encoding/encoded_matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex::decode {

/// How the blocks (of plain numbers: weights) of a matrix were written.
struct RewriteCounts {
  std::int64_t kept = 0;     ///< the same bytes
  std::int64_t patched = 0;  ///< some codes are new, scale and other codes are the same
  std::int64_t encoded = 0;  ///< new codes under a new scale
  void add(const RewriteCounts& other);
};

/// True where changed weights can be written: F64, F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
/// F8_E4M3 with F32 scales per block, symmetric INT4 with BF16 scales per group. Nothing changed
/// can be written back to any encoding.
bool is_rewritable(const EncodedMatrix& original);

/// Writes rows x cols weights, row-major with `stride` >= cols floats between rows, as the bytes
/// that take the place of `original`'s: `codes` gets its code_window() without gaps, `scales` the
/// bytes of its scale companion. A view of some rows of an encoding with scales must begin and end
/// where blocks do, and `scales` keeps what other rows have: give the same span for every view.
/// Callers fill `scales` with the original's bytes beforehand.
/// Threads   pure; views that share a span of scales one after another. Errors: FormatError
/// E-ENCODE-VALUE for a changed weight that is not finite or beyond what the encoding can hold;
/// ConfigurationError E-ENCODE-TYPE for a change where is_rewritable() is false; both name `where`,
/// row and column. expects() on sizes that do not fit.
RewriteCounts rewrite_matrix(const EncodedMatrix& original, const float* values,
                             std::int64_t stride, std::span<std::byte> codes,
                             std::span<std::byte> scales, const std::string& where);

}  // namespace vindex::decode
