// Owns the product of packed bfloat16 panels on a matrix unit: sums of 16 x 16 elements over 32
// contracted indices at a time, in tiles. The arithmetic is a type parameter, so that the same text
// runs on the unit (amx_tiles.hpp) and, emulated, on any processor (tests/support).
//
// An operand is there in two layouts, since a unit takes the left one by rows and the right one by
// pairs of rows. Per panel of 16 Gram indices and block of 32 contracted ones, 1 KiB each:
//   columns  word[pair][i]   as simd_gram_pack.hpp packs it, pair by pair
//   rows     word[i][pair]   the same block transposed
// word = bf16(w(k, i)) | bf16(w(k + 1, i)) << 16, k = 2 pair. What is missing is zero, the last
// panel of an odd number included: panels are multiplied in twos.
//
// A weight of more than 8 significant bits, up to 16, is a sum of two parts, w = h + m, each exact
// in bfloat16; every part is an operand of its own. Products of parts are exact and summed from the
// smallest on, so that only those of h times h are rounded at the size of the sum.
#pragma once

#include "simd_gram_pack.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <stop_token>

namespace vindex::cpu {

/// Pairs of contracted indices in a tile.
inline constexpr std::int64_t kTilePairs = 16;
inline constexpr std::int64_t kTileWords = kTilePairs * kPanelWidth;
inline constexpr int kMaxParts = 2;

/// A run of contracted indices summed in one accumulator, and the scales of its weights.
struct TileSegment {
  std::int64_t first_block = 0;
  std::int64_t blocks = 0;
  const float* scales = nullptr;  ///< one per Gram index, padded as panels are; null: all 1
};

/// Segments that are summed up before the Gram is touched.
struct TileStretch {
  const TileSegment* segments = nullptr;
  std::int64_t count = 0;
};

/// Two parts that are multiplied.
struct PartProduct {
  std::int8_t row_part = 0;
  std::int8_t column_part = 0;
};

/// What a matrix unit multiplies.
struct TileOperands {
  std::array<const std::uint32_t*, kMaxParts> rows{};
  std::array<const std::uint32_t*, kMaxParts> columns{};
  std::int64_t panel_words = 0;  ///< from one panel to the next
  std::span<const TileStretch> stretches = {};
  std::span<const PartProduct> products = {};  ///< smallest first
};

/// The products of weights of one or two parts: all, so that nothing of them is left out.
inline std::span<const PartProduct> part_products(int parts) {
  static constexpr PartProduct kOne[] = {{0, 0}};
  static constexpr PartProduct kTwo[] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
  if (parts == 1) {
    return kOne;
  }
  return kTwo;
}

/// Two by two tiles of sums: [row panel][column panel].
struct alignas(64) TileSums {
  float values[2][2][kPanelWidth][kPanelWidth];
};

// Pairs of row panels that stay in the second-level cache while all column panels pass by.
inline constexpr std::int64_t kBlockPairs = 6;

template <typename Tiles>
[[gnu::always_inline]] inline void sum_segment(Tiles& tiles, const TileOperands& operands,
                                               const TileSegment& segment, std::int64_t row_pair,
                                               std::int64_t column_pair, TileSums& sums) {
  constexpr std::int64_t kStride = kPanelWidth * 4;
  tiles.template zero<0>();
  tiles.template zero<1>();
  tiles.template zero<2>();
  tiles.template zero<3>();
  for (const PartProduct& product : operands.products) {
    const std::int64_t first = segment.first_block * kTileWords;
    const std::uint32_t* a = operands.rows[static_cast<std::size_t>(product.row_part)] +
                             2 * row_pair * operands.panel_words + first;
    const std::uint32_t* b = operands.columns[static_cast<std::size_t>(product.column_part)] +
                             2 * column_pair * operands.panel_words + first;
    for (std::int64_t block = 0; block < segment.blocks; ++block) {
      tiles.template load<4>(a, kStride);
      tiles.template load<6>(b, kStride);
      tiles.template load<7>(b + operands.panel_words, kStride);
      tiles.template load<5>(a + operands.panel_words, kStride);
      tiles.template add_products<0, 4, 6>();
      tiles.template add_products<1, 4, 7>();
      tiles.template add_products<2, 5, 6>();
      tiles.template add_products<3, 5, 7>();
      a += kTileWords;
      b += kTileWords;
    }
  }
  tiles.template store<0>(sums.values[0][0], kStride);
  tiles.template store<1>(sums.values[0][1], kStride);
  tiles.template store<2>(sums.values[1][0], kStride);
  tiles.template store<3>(sums.values[1][1], kStride);
}

/// total = (first ? 0 : total) + sums * (scale of the row * scale of the column).
[[gnu::always_inline]] inline void fold_scaled(const TileSums& sums, const TileSegment& segment,
                                               std::int64_t row_pair, std::int64_t column_pair,
                                               bool first, TileSums& total) {
  for (std::int64_t a = 0; a < 2; ++a) {
    const float* row_scales = segment.scales + (2 * row_pair + a) * kPanelWidth;
    for (std::int64_t b = 0; b < 2; ++b) {
      const float* column_scales = segment.scales + (2 * column_pair + b) * kPanelWidth;
      for (std::int64_t i = 0; i < kPanelWidth; ++i) {
        const float row_scale = row_scales[i];
        const float* from = sums.values[a][b][i];
        float* to = total.values[a][b][i];
        for (std::int64_t j = 0; j < kPanelWidth; ++j) {
          const float scaled = from[j] * (column_scales[j] * row_scale);
          to[j] = first ? scaled : to[j] + scaled;
        }
      }
    }
  }
}

[[gnu::always_inline]] inline void add_to_triangle(const TileSums& sums, std::int64_t row_pair,
                                                   std::int64_t column_pair, float* gram,
                                                   std::int64_t n) {
  const std::int64_t first_row = 2 * row_pair * kPanelWidth;
  const std::int64_t first_column = 2 * column_pair * kPanelWidth;
  const std::int64_t rows = std::min(2 * kPanelWidth, n - first_row);
  const bool is_whole = row_pair > column_pair;
  for (std::int64_t i = 0; i < rows; ++i) {
    float* out = gram + (first_row + i) * n + first_column;
    const float(*const from)[kPanelWidth][kPanelWidth] = sums.values[i / kPanelWidth];
    const std::int64_t line = i % kPanelWidth;
    if (is_whole) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        out[j] += from[0][line][j];
      }
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        out[kPanelWidth + j] += from[1][line][j];
      }
    } else {
      for (std::int64_t j = 0; j <= i; ++j) {
        out[j] += from[j / kPanelWidth][line][j % kPanelWidth];
      }
    }
  }
}

/// The TileProduct of a unit. `Tiles` configures the unit while it lives: eight tiles of 16 rows of
/// 64 bytes.
template <typename Tiles>
[[gnu::always_inline]] inline void multiply_tiles(const TileOperands& operands, float* gram,
                                                  std::int64_t n, const std::stop_token& stop) {
  const std::int64_t pairs = ceil_divide(n, 2 * kPanelWidth);
  Tiles tiles;
  TileSums sums;
  TileSums total;
  for (std::int64_t block = 0; block < pairs; block += kBlockPairs) {
    throw_if_stopped(stop);
    const std::int64_t block_end = std::min(pairs, block + kBlockPairs);
    for (std::int64_t column = 0; column < block_end; ++column) {
      for (const TileStretch& stretch : operands.stretches) {
        // The right operand of a stretch stays in the first-level cache for all rows of the block.
        for (std::int64_t row = std::max(block, column); row < block_end; ++row) {
          const float* first = gram + row * 2 * kPanelWidth * n + column * 2 * kPanelWidth;
          const std::int64_t lines = std::min(2 * kPanelWidth, n - row * 2 * kPanelWidth);
          for (std::int64_t i = 0; i < lines; ++i) {
            __builtin_prefetch(first + i * n, 1);
            __builtin_prefetch(first + i * n + kPanelWidth, 1);
          }
          for (std::int64_t s = 0; s < stretch.count; ++s) {
            const TileSegment& segment = stretch.segments[s];
            sum_segment(tiles, operands, segment, row, column, sums);
            if (segment.scales != nullptr) {
              fold_scaled(sums, segment, row, column, s == 0, total);
            } else {
              add_to_triangle(sums, row, column, gram, n);
            }
          }
          if (stretch.count > 0 && stretch.segments[0].scales != nullptr) {
            add_to_triangle(total, row, column, gram, n);
          }
        }
      }
    }
  }
}

}  // namespace vindex::cpu
