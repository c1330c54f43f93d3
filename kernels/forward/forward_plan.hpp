// Owns how a forward pass's products and attention are cut to the memory of a device: tiles, and
// the arrays of each. Pure: no device is touched.
#pragma once
#include "decode/encoding/encoding.hpp"
#include "kernels/device/handles.hpp"

#include <cstdint>

namespace vindex::kernels {

/// What linear() is asked for, as far as memory goes.
struct LinearShape {
  const decode::Encoding* encoding = nullptr;
  std::int64_t tokens = 0;
  std::int64_t depth = 0;             ///< of each sum: logical columns
  std::int64_t count = 0, step = 1;   ///< logical rows, and the distance between them
  bool columns = false;               ///< logical rows are stored columns
  std::uint64_t companion_bytes = 0;  ///< of all companions on the device
  bool bias = false;

  /// Stored rows, or columns, from the first of `rows` logical rows to their last.
  std::int64_t span(std::int64_t rows) const { return (rows - 1) * step + 1; }
  /// Weights are picked out of decoded columns before they are multiplied.
  bool gathers() const { return columns && step > 1; }
};

/// What is computed at a time: `rows` logical rows for `tokens` tokens.
struct LinearTile {
  std::int64_t tokens = 0, rows = 0;
};

/// Arrays on the device. Those by two belong to tiles that follow each other.
struct LinearArrays {
  std::uint8_t* companions = nullptr;
  float* bias = nullptr;          ///< [count]
  float* x = nullptr;             ///< [tokens, depth]
  std::uint8_t* encoded[2] = {};  ///< code_room() bytes
  float* wide = nullptr;          ///< where it gathers: [depth, decoded columns]
  float* weights[2] = {};         ///< decoded, or gathered: [depth, rows]
  float* y[2] = {};               ///< [tokens, rows]
};

/// Decoded rows (columns) of a tile at most: its span, wherever it lies, in whole blocks.
std::int64_t decoded_span(const LinearShape& shape, std::int64_t rows);
/// Encoded bytes of a tile at most. Errors: OutOfMemory where 64 bits do not hold them.
std::uint64_t code_room(const LinearShape& shape, std::int64_t rows);
/// With an arena that only counts: how much memory a tile takes.
LinearArrays cut_linear(const LinearShape& shape, const LinearTile& tile, Arena& arena);
std::uint64_t linear_device_bytes(const LinearShape& shape, const LinearTile& tile);

/// The tile for `budget` bytes of device memory: all tokens where they fit, rows enough that copies
/// and products are worth starting, and few enough that one tile's copy runs beside the product of
/// the one before. Errors: OutOfMemory where one row for one token does not fit.
LinearTile plan_linear(const LinearShape& shape, std::uint64_t budget);

/// Encoded bytes of a slab of a weight of `rows` x `cols` as stored, whatever its encoding: an
/// upper bound.
std::uint64_t most_slab_bytes(std::int64_t rows, std::int64_t cols);

/// What attention() is asked for, as far as memory and time go.
struct AttentionShape {
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  std::int64_t group() const { return heads / kv_heads; }
};

/// What is computed at a time: the heads of `kv_heads` heads of keys, for `queries` tokens.
struct AttentionTile {
  std::int64_t kv_heads = 0, queries = 0;
};

struct AttentionArrays {
  float* q = nullptr;      ///< [queries, heads of the tile, head_dim]
  float* k = nullptr;      ///< [tokens, kv_heads, head_dim]
  float* v = nullptr;      ///< [tokens, kv_heads, value_dim]
  float* out = nullptr;    ///< [queries, heads of the tile, value_dim]
  float* sinks = nullptr;  ///< [heads]
};

AttentionArrays cut_attention(const AttentionShape& shape, const AttentionTile& tile, Arena& arena);
std::uint64_t attention_device_bytes(const AttentionShape& shape, const AttentionTile& tile);

/// The tile for `budget` bytes: as many heads as a launch takes, queries for well under a second.
/// Errors: OutOfMemory where the keys of one head and one tile of queries do not fit.
AttentionTile plan_attention(const AttentionShape& shape, std::uint64_t budget);

}  // namespace vindex::kernels
