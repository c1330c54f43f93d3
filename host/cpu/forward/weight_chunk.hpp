// Owns the decoding of a rectangle of a weight, given in rows and columns of the logical matrix
// (out x in), whichever way it is stored.
#pragma once

#include "backend/backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"

#include <cstdint>

namespace vindex::cpu {

/// Stored rows of a weight whose bytes are at hand.
struct WeightPart {
  decode::EncodedMatrix view;
  std::int64_t first_row = 0;  ///< number of the view's first row in the stored matrix
  bool transposed = false;     ///< stored in x out
};

/// Logical rows first, first + step, ... `count` of them, by columns [first_col, first_col + cols).
struct ChunkPlace {
  std::int64_t first = 0, step = 1, count = 0;
  std::int64_t first_col = 0, cols = 0;
};

/// Decoded weights: row i, column k at values[i stride + k], or values[k stride + i] where
/// transposed.
struct DecodedChunk {
  const float* values = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};

struct ChunkLimit {
  std::int64_t floats = 0, cols = 0;
};

/// How many columns a chunk of `count` rows of `weight` may have: a multiple of what the encoding
/// can be cut at. At least one such cut, whatever the limit.
std::int64_t chunk_cols(const MatrixInput& weight, std::int64_t step, std::int64_t count,
                        const ChunkLimit& limit);

/// Decodes to `scratch`. Columns begin at a multiple of chunk_cols().
DecodedChunk decode_chunk(const WeightPart& part, const ChunkPlace& place, float* scratch);

}  // namespace vindex::cpu
