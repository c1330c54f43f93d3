// Owns the sizes: tiles halved until their arrays fit, and these arrays laid out by an arena that
// also only counts.
#include "forward_plan.hpp"

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "kernels/forward/attention.hpp"

#include <algorithm>
#include <limits>

namespace vindex::kernels {

namespace {

/// Decoded weights of a tile: 64 MiB, whose codes take a millisecond on the bus.
constexpr std::int64_t kTileFloats = 16LL << 20U;
/// Below it the starts of copies and kernels count.
constexpr std::int64_t kLeastTileFloats = 2LL << 20U;
/// A matrix is cut at least so often, or its copy would run beside nothing.
constexpr std::int64_t kLeastTiles = 4;
/// Logical rows of a tile come in multiples of what the library's tiles have.
constexpr std::int64_t kRowUnit = 128;
/// In one product, so that no side exceeds 31 bits.
constexpr std::int64_t kMaxTokens = 1LL << 20U;
/// Multiplications and additions of one launch of attention: some tenths of a second.
constexpr std::int64_t kLaunchWork = 1LL << 42U;
/// Of gridDim.y.
constexpr std::int64_t kMaxHeads = 65535;

std::int64_t halved(std::int64_t value) { return ceil_divide(value, std::int64_t{2}); }

/// `bytes`, or what stands for more than any device has.
std::uint64_t or_most(std::optional<std::uint64_t> bytes) {
  return bytes.value_or(std::numeric_limits<std::uint64_t>::max());
}

/// Of float32 arrays of a x b. A device's memory is far below what saturates.
std::uint64_t float_bytes(std::int64_t a, std::int64_t b) {
  const std::uint64_t factors[] = {static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b),
                                   sizeof(float)};
  return or_most(checked_product(factors));
}

/// Of one array: a part of the address space that the sum of all cannot leave.
constexpr std::uint64_t kMostCountable = 1ULL << 58U;

bool is_countable(std::uint64_t bytes) { return bytes <= kMostCountable; }

bool is_countable(const LinearShape& shape, const LinearTile& tile) {
  const std::int64_t span = decoded_span(shape, tile.rows);
  return is_countable(float_bytes(tile.tokens, shape.depth)) &&
         is_countable(float_bytes(tile.tokens, tile.rows)) &&
         is_countable(float_bytes(span, shape.depth)) && is_countable(shape.companion_bytes) &&
         is_countable(or_most(decode::slab_bytes(
             *shape.encoding, static_cast<std::uint64_t>(shape.columns ? shape.depth : span),
             static_cast<std::uint64_t>(shape.columns ? span : shape.depth))));
}

}  // namespace

std::int64_t decoded_span(const LinearShape& shape, std::int64_t rows) {
  const std::int64_t unit = shape.columns ? decode::column_granularity(*shape.encoding) : 1;
  return ceil_divide(shape.span(rows) + unit - 1, unit) * unit;
}

std::uint64_t code_room(const LinearShape& shape, std::int64_t rows) {
  const auto span = static_cast<std::uint64_t>(decoded_span(shape, rows));
  const auto depth = static_cast<std::uint64_t>(shape.depth);
  const std::uint64_t bytes = or_most(decode::slab_bytes(
      *shape.encoding, shape.columns ? depth : span, shape.columns ? span : depth));
  if (!is_countable(bytes)) {
    throw OutOfMemory("encoded weights on the device", bytes);
  }
  return bytes;
}

LinearArrays cut_linear(const LinearShape& shape, const LinearTile& tile, Arena& arena) {
  LinearArrays arrays;
  const std::int64_t decoded = decoded_span(shape, tile.rows) * shape.depth;
  arrays.companions = arena.take<std::uint8_t>(static_cast<std::int64_t>(shape.companion_bytes));
  arrays.bias = arena.take<float>(shape.bias ? shape.count : 0);
  arrays.x = arena.take<float>(tile.tokens * shape.depth);
  arrays.wide = arena.take<float>(shape.gathers() ? decoded : 0);
  for (int i = 0; i < 2; ++i) {
    arrays.encoded[i] =
        arena.take<std::uint8_t>(static_cast<std::int64_t>(code_room(shape, tile.rows)));
    arrays.weights[i] = arena.take<float>(shape.gathers() ? tile.rows * shape.depth : decoded);
    arrays.y[i] = arena.take<float>(tile.tokens * tile.rows);
  }
  return arrays;
}

std::uint64_t linear_device_bytes(const LinearShape& shape, const LinearTile& tile) {
  if (!is_countable(shape, tile)) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  Arena counted(nullptr, 0);
  (void)cut_linear(shape, tile, counted);
  return counted.used();
}

LinearTile plan_linear(const LinearShape& shape, std::uint64_t budget) {
  const std::int64_t row_floats_at_most =
      std::max<std::int64_t>(1, kTileFloats / std::max<std::int64_t>(1, shape.depth));
  // Rows whose weights, those stepped over too, fill a tile; and those that fill the least.
  const std::int64_t most = std::max<std::int64_t>(1, row_floats_at_most / shape.step);
  const std::int64_t least = std::max<std::int64_t>(1, most / (kTileFloats / kLeastTileFloats));
  LinearTile tile{.tokens = std::min(shape.tokens, kMaxTokens),
                  .rows = std::clamp(ceil_divide(shape.count, kLeastTiles), least, most)};
  if (tile.rows > kRowUnit) {
    tile.rows = tile.rows / kRowUnit * kRowUnit;
  }
  tile.rows = std::min(tile.rows, shape.count);
  // The library takes the distance between rows as a number of 31 bits.
  if (!shape.columns &&
      shape.step > std::numeric_limits<int>::max() / std::max<std::int64_t>(1, shape.depth)) {
    tile.rows = 1;
  }
  for (;;) {
    const std::uint64_t bytes = linear_device_bytes(shape, tile);
    if (bytes <= budget) {
      return tile;
    }
    // Rows first: fewer tokens at a time mean that all of them are copied for every tile of rows.
    if (tile.rows > kRowUnit || (tile.rows > 1 && tile.tokens == 1)) {
      tile.rows = halved(tile.rows);
    } else if (tile.tokens > 1) {
      tile.tokens = halved(tile.tokens);
    } else {
      throw OutOfMemory("device memory: one row of a weight and its product", bytes);
    }
  }
}

std::uint64_t most_slab_bytes(std::int64_t rows, std::int64_t cols) {
  // No code is wider than 8 bytes; those of whole blocks, by which a slab may exceed its tile, have
  // little more than one.
  constexpr std::uint64_t kMostBytes = 8;
  const auto a = static_cast<std::uint64_t>(rows);
  const auto b = static_cast<std::uint64_t>(cols);
  const std::uint64_t weights = std::min(or_most(checked_multiply(a, b)),
                                         std::max({static_cast<std::uint64_t>(kTileFloats), a, b}));
  return std::min(or_most(checked_multiply(kMostBytes, weights)), kMostCountable);
}

AttentionArrays cut_attention(const AttentionShape& shape, const AttentionTile& tile,
                              Arena& arena) {
  const std::int64_t heads = tile.kv_heads * shape.group();
  AttentionArrays arrays;
  arrays.q = arena.take<float>(tile.queries * heads * shape.head_dim);
  arrays.k = arena.take<float>(shape.tokens * tile.kv_heads * shape.head_dim);
  arrays.v = arena.take<float>(shape.tokens * tile.kv_heads * shape.value_dim);
  arrays.out = arena.take<float>(tile.queries * heads * shape.value_dim);
  arrays.sinks = arena.take<float>(shape.heads);
  return arrays;
}

std::uint64_t attention_device_bytes(const AttentionShape& shape, const AttentionTile& tile) {
  const std::int64_t width = std::max(shape.head_dim, shape.value_dim);
  const std::uint64_t factors[] = {static_cast<std::uint64_t>(shape.tokens),
                                   static_cast<std::uint64_t>(shape.heads),
                                   static_cast<std::uint64_t>(width), sizeof(float)};
  if (!is_countable(or_most(checked_product(factors)))) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  Arena counted(nullptr, 0);
  (void)cut_attention(shape, tile, counted);
  return counted.used();
}

AttentionTile plan_attention(const AttentionShape& shape, std::uint64_t budget) {
  AttentionTile tile{
      .kv_heads = std::clamp<std::int64_t>(kMaxHeads / shape.group(), 1, shape.kv_heads),
      .queries = shape.tokens};
  constexpr std::int64_t kUnit = kAttentionQueries;
  const auto fewer_queries = [&] {
    tile.queries = ceil_divide(halved(tile.queries), kUnit) * kUnit;
  };
  // Of one query and all keys: a launch may take a query more at the least.
  const double work = 2.0 * static_cast<double>(shape.tokens) * static_cast<double>(shape.heads) *
                      static_cast<double>(shape.head_dim + shape.value_dim);
  while (tile.queries > kUnit &&
         static_cast<double>(tile.queries) * work > static_cast<double>(kLaunchWork)) {
    fewer_queries();
  }
  constexpr std::int64_t kManyQueries = 1024;  // fill a device with a few heads
  for (;;) {
    const std::uint64_t bytes = attention_device_bytes(shape, tile);
    if (bytes <= budget) {
      return tile;
    }
    if (tile.queries > kManyQueries || (tile.queries > kUnit && tile.kv_heads == 1)) {
      fewer_queries();
    } else if (tile.kv_heads > 1) {
      tile.kv_heads = halved(tile.kv_heads);
    } else {
      throw OutOfMemory("device memory: keys and values of one head", bytes);
    }
  }
}

}  // namespace vindex::kernels
