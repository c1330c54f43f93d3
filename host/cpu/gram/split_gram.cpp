// Owns splitting float32 weights into bfloat16 parts, h the nearest to w, and w - h: exact for 16
// significant bits, of which every part takes 8.
#include "split_gram.hpp"

#include "tile_product.hpp"

#include "core/integers.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace vindex::cpu {
namespace {

constexpr std::int64_t kSplitPanelWords = kPanelWidth * kSplitDepth / 2;
// The shortest long side with which two parts were measured to be faster; the next shorter one that
// was measured, 2048, was not.
constexpr std::int64_t kLeastTwoPartSide = 7168;

/// The element types are parameters since g++ 12 forgets the size of a vector of a fixed one.
template <typename Float = float, typename Word = std::uint32_t, typename Half = std::uint16_t>
struct SplitLanes {
  typedef Float Floats __attribute__((vector_size(64)));
  typedef Word Words __attribute__((vector_size(64)));
  typedef Half Halves __attribute__((vector_size(32)));

  /// Bits of 16 weights' parts, each in the upper half of a word.
  struct Parts {
    Words bits[kMaxParts];
  };

  [[gnu::always_inline]] static inline void split(const Floats& values, Parts& parts) {
    Floats rest = values;
    for (Words& part : parts.bits) {
      Words bits = (Words)rest;
      bits += 0x7FFFU + (bits >> 16 & 1U);
      part = bits & 0xFFFF0000U;
      rest -= (Floats)part;
    }
  }

  /// Up to 16 neighbouring weights; zeros for those that are missing.
  [[gnu::always_inline]] static inline void load(const float* from, std::int64_t count,
                                                 Floats& values) {
    if (count >= kPanelWidth) {
      std::memcpy(&values, from, sizeof(Floats));
      return;
    }
    values = Floats{};
    if (count > 0) {
      std::memcpy(&values, from, static_cast<std::size_t>(count) * sizeof(float));
    }
  }
};

/// A part of a tile to split: `depth` contracted indices, at most kSplitDepth.
struct SplitSource {
  const float* values = nullptr;  ///< of contracted index 0, Gram index 0
  std::int64_t stride = 0;        ///< between rows
  std::int64_t gram_size = 0;
  std::int64_t depth = 0;
};

using PartPanels = std::array<std::uint32_t*, kMaxParts>;

/// Rows are contracted: fills the layout `columns` of `parts` parts.
[[gnu::always_inline]] inline void split_rows(const SplitSource& source, std::int64_t panels,
                                              std::size_t parts, const PartPanels& out) {
  using Lanes = SplitLanes<>;
  const std::int64_t pairs = ceil_divide(source.depth, 2 * kTilePairs) * kTilePairs;
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    const std::int64_t first = panel * kPanelWidth;
    const std::int64_t count = source.gram_size - first;
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const float* const from = source.values + 2 * pair * source.stride + first;
      Lanes::Floats even;
      Lanes::Floats odd;
      Lanes::load(from, 2 * pair < source.depth ? count : 0, even);
      Lanes::load(from + source.stride, 2 * pair + 1 < source.depth ? count : 0, odd);
      Lanes::Parts low;
      Lanes::Parts high;
      Lanes::split(even, low);
      Lanes::split(odd, high);
      for (std::size_t part = 0; part < parts; ++part) {
        const Lanes::Words words = low.bits[part] >> 16 | high.bits[part];
        std::memcpy(out[part] + panel * kSplitPanelWords + pair * kPanelWidth, &words,
                    sizeof(words));
      }
    }
  }
}

/// Columns are contracted: fills the layout `rows`.
[[gnu::always_inline]] inline void split_columns(const SplitSource& source, std::int64_t panels,
                                                 std::size_t parts, const PartPanels& out) {
  using Lanes = SplitLanes<>;
  const std::int64_t blocks = ceil_divide(source.depth, 2 * kTilePairs);
  for (std::int64_t line = 0; line < panels * kPanelWidth; ++line) {
    const float* const from = source.values + line * source.stride;
    const std::int64_t at = line / kPanelWidth * kSplitPanelWords + line % kPanelWidth * kTilePairs;
    for (std::int64_t half = 0; half < 2 * blocks; ++half) {
      const std::int64_t first = half * kPanelWidth;
      Lanes::Floats values;
      Lanes::load(from + first, line < source.gram_size ? source.depth - first : 0, values);
      Lanes::Parts split;
      Lanes::split(values, split);
      for (std::size_t part = 0; part < parts; ++part) {
        const auto halves = __builtin_convertvector(split.bits[part] >> 16, Lanes::Halves);
        std::memcpy(out[part] + at + half / 2 * kTileWords + half % 2 * (kTilePairs / 2), &halves,
                    sizeof(halves));
      }
    }
  }
}

using SplitLoop = void (*)(const SplitSource& source, std::int64_t panels, std::size_t parts,
                           const PartPanels& out);

void split_rows_portable(const SplitSource& source, std::int64_t panels, std::size_t parts,
                         const PartPanels& out) {
  split_rows(source, panels, parts, out);
}
void split_columns_portable(const SplitSource& source, std::int64_t panels, std::size_t parts,
                            const PartPanels& out) {
  split_columns(source, panels, parts, out);
}

#if defined(__x86_64__)
#define VINDEX_TARGET_SPLIT __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

VINDEX_TARGET_SPLIT void split_rows_avx512(const SplitSource& source, std::int64_t panels,
                                           std::size_t parts, const PartPanels& out) {
  split_rows(source, panels, parts, out);
}
VINDEX_TARGET_SPLIT void split_columns_avx512(const SplitSource& source, std::int64_t panels,
                                              std::size_t parts, const PartPanels& out) {
  split_columns(source, panels, parts, out);
}
#endif

SplitLoop split_loop(bool row_slabs, SimdLevel level) {
#if defined(__x86_64__)
  if (level >= SimdLevel::kAvx512) {
    return row_slabs ? split_rows_avx512 : split_columns_avx512;
  }
#endif
  return row_slabs ? split_rows_portable : split_columns_portable;
}

}  // namespace

int max_split_parts(std::int64_t long_side) { return long_side >= kLeastTwoPartSide ? 2 : 1; }

int split_parts_of(const Tile& tile, int most) {
  // Significant bits beyond 8 and 16 are the lower bits of a float32.
  constexpr std::uint32_t kBeyondOne = 0xFFFF;
  constexpr std::uint32_t kBeyondTwo = 0xFF;
  const std::uint32_t beyond = most == 1 ? kBeyondOne : kBeyondTwo;
  constexpr std::int64_t kLooked = 4096;  // weights before the next look whether that is enough
  const std::int64_t count = tile.rows * tile.cols;
  std::uint32_t any = 0;
  for (std::int64_t first = 0; first < count; first += kLooked) {
    const std::int64_t end = std::min(count, first + kLooked);
    for (std::int64_t i = first; i < end; ++i) {
      any |= __builtin_bit_cast(std::uint32_t, tile.values[i]);
    }
    if ((any & beyond) != 0) {
      return 0;
    }
  }
  return (any & kBeyondOne) == 0 ? 1 : 2;
}

std::size_t split_gram_workspace_bytes(std::int64_t n) {
  const std::int64_t panels = 2 * ceil_divide(n, 2 * kPanelWidth);
  return static_cast<std::size_t>(panels * kSplitPanelWords) * sizeof(std::uint32_t) * 2 *
         kMaxParts;
}

void add_split_gram(const Tile& tile, int parts, bool row_slabs, float* gram,
                    std::span<std::byte> workspace, TileProduct tiles, SimdLevel level,
                    const std::stop_token& stop) {
  const std::int64_t n = row_slabs ? tile.cols : tile.rows;
  const std::int64_t depth = row_slabs ? tile.rows : tile.cols;
  expects(tiles != nullptr, "a matrix unit");
  expects(parts >= 1 && parts <= kMaxParts, "parts of a weight");
  expects(workspace.size() >= split_gram_workspace_bytes(n), "Gram workspace too small");
  expects(reinterpret_cast<std::uintptr_t>(workspace.data()) % 64 == 0, "workspace alignment");
  const std::int64_t panels = 2 * ceil_divide(n, 2 * kPanelWidth);
  auto* const words = reinterpret_cast<std::uint32_t*>(workspace.data());
  PartPanels rows{};
  PartPanels columns{};
  TileOperands operands;
  for (std::size_t part = 0; part < kMaxParts; ++part) {
    operands.rows[part] = rows[part] = words + 2 * part * panels * kSplitPanelWords;
    operands.columns[part] = columns[part] = rows[part] + panels * kSplitPanelWords;
  }
  operands.panel_words = kSplitPanelWords;
  const SplitLoop split = split_loop(row_slabs, level);
  const auto count = static_cast<std::size_t>(parts);
  for (std::int64_t start = 0; start < depth; start += kSplitDepth) {
    const SplitSource source = {.values = tile.values + (row_slabs ? start * tile.cols : start),
                                .stride = tile.cols,
                                .gram_size = n,
                                .depth = std::min(kSplitDepth, depth - start)};
    split(source, panels, count, row_slabs ? columns : rows);
    const TileSegment segment = {.blocks = ceil_divide(source.depth, 2 * kTilePairs)};
    for (std::size_t part = 0; part < count; ++part) {
      const PartPanels& from = row_slabs ? columns : rows;
      const PartPanels& to = row_slabs ? rows : columns;
      for (std::int64_t panel = 0; panel < panels; ++panel) {
        transpose_blocks(from[part] + panel * kSplitPanelWords, to[part] + panel * kSplitPanelWords,
                         segment.blocks, level);
      }
    }
    const TileStretch stretch = {.segments = &segment, .count = 1};
    operands.stretches = {&stretch, 1};
    operands.products = part_products(parts);
    tiles(operands, gram, n, stop);
  }
}

}  // namespace vindex::cpu
