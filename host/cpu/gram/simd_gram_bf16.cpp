// Owns the Gram matrix of weights whose codes bfloat16 holds exactly. With c the codes and s_b the
// scales of the blocks of the contracted side,
//
//   G_ij = sum over blocks b of  s_bi s_bj  sum over k in b of  c_ki c_kj
//
// BF16 weights have one block and scales of 1. A product of two codes of 8 significant bits fits
// the 24 of float32, so the inner sum rounds by its additions alone; it runs over at most kSegment
// products in one accumulator, then it is scaled and added. Source: Intel SDM, VDPBF16PS; scales
// after the products as in DeepGEMM.
//
// Why not decode to float32 and take syrk: vdpbf16ps does two products where an FMA does one, on
// operands of half the bytes, and code times scale need not be rounded to float32. Where it is not
// issued as often as an FMA, syrk is taken: gram_bf16_is_fast(). Why segments: a
// single float32 sum over the long side errs by its length.
#include "simd_gram_bf16.hpp"

#include "simd_gram_pack.hpp"
#include "tile_product.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "cpu/simd/matrix_unit.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stop_token>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace vindex::cpu {
namespace {

constexpr std::int64_t kPanelWords = kPanelWidth * kPackDepth / 2;
// Contracted length of one float32 accumulator; of one on a matrix unit, which sums 32 products
// before it adds them.
constexpr std::int64_t kSegment = 128;
constexpr std::int64_t kTileSegment = 512;
// Shortest contracted scale block worth a fold of its own.
constexpr std::int64_t kMinScaleBlock = 32;
constexpr std::int64_t kMaxSegments = kPackDepth / kMinScaleBlock;
// Panels kept in the second-level cache while all others pass by: 12 * 32 KiB.
constexpr std::int64_t kBlockPanels = 12;

std::int64_t panel_count(std::int64_t n) { return ceil_divide(n, kPanelWidth); }

// Panels of an operand: a matrix unit takes them in twos.
std::int64_t held_panels(std::int64_t n, bool by_tiles) {
  return by_tiles ? 2 * ceil_divide(n, 2 * kPanelWidth) : panel_count(n);
}

// A run of contracted indices summed in one accumulator, and the scales of its weights.
struct Segment {
  std::int64_t first_pair = 0;
  std::int64_t pairs = 0;
  const float* scales = nullptr;  // one per Gram index, padded; null: all 1
  std::int64_t first = 0;         // contracted index in the pack, and how many
  std::int64_t length = 0;
};

// What the tile kernels read.
struct PackedSlab {
  const std::uint32_t* panels = nullptr;
  std::vector<Segment> segments;
};

using Tile = float[kPanelWidth][kPanelWidth];

void tile_portable(const PackedSlab& slab, std::int64_t row_panel, std::int64_t column_panel,
                   Tile& tile) {
  const std::uint32_t* rows = slab.panels + row_panel * kPanelWords;
  const std::uint32_t* columns = slab.panels + column_panel * kPanelWords;
  const auto even = [](std::uint32_t word) { return __builtin_bit_cast(float, word << 16U); };
  const auto odd = [](std::uint32_t word) { return __builtin_bit_cast(float, word & 0xFFFF0000U); };
  std::memset(tile, 0, sizeof(tile));
  for (const Segment& segment : slab.segments) {
    for (std::int64_t i = 0; i < kPanelWidth; ++i) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        float sum = 0.0F;
        for (std::int64_t k = segment.first_pair; k < segment.first_pair + segment.pairs; ++k) {
          const std::uint32_t a = rows[k * kPanelWidth + i];
          const std::uint32_t b = columns[k * kPanelWidth + j];
          sum += odd(a) * odd(b);
          sum += even(a) * even(b);
        }
        if (segment.scales != nullptr) {
          sum *= segment.scales[row_panel * kPanelWidth + i] *
                 segment.scales[column_panel * kPanelWidth + j];
        }
        tile[i][j] += sum;
      }
    }
  }
}

#if defined(__x86_64__)
#define VINDEX_TARGET_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

VINDEX_TARGET_BF16 void tile_bf16(const PackedSlab& slab, std::int64_t row_panel,
                                  std::int64_t column_panel, Tile& tile) {
  bool first = true;
  for (const Segment& segment : slab.segments) {
    const std::uint32_t* rows =
        slab.panels + row_panel * kPanelWords + segment.first_pair * kPanelWidth;
    const std::uint32_t* columns =
        slab.panels + column_panel * kPanelWords + segment.first_pair * kPanelWidth;
    __m512 sums[kPanelWidth];
#pragma GCC unroll 16
    for (int i = 0; i < kPanelWidth; ++i) {
      sums[i] = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < segment.pairs; ++k) {
      const auto column = reinterpret_cast<__m512bh>(_mm512_load_si512(columns));
#pragma GCC unroll 16
      for (int i = 0; i < kPanelWidth; ++i) {
        const auto row = reinterpret_cast<__m512bh>(_mm512_set1_epi32(static_cast<int>(rows[i])));
        sums[i] = _mm512_dpbf16_ps(sums[i], row, column);
      }
      rows += kPanelWidth;
      columns += kPanelWidth;
    }
    if (segment.scales != nullptr) {
      const __m512 column_scales = _mm512_loadu_ps(segment.scales + column_panel * kPanelWidth);
      const float* row_scales = segment.scales + row_panel * kPanelWidth;
#pragma GCC unroll 16
      for (int i = 0; i < kPanelWidth; ++i) {
        sums[i] =
            _mm512_mul_ps(sums[i], _mm512_mul_ps(column_scales, _mm512_set1_ps(row_scales[i])));
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kPanelWidth; ++i) {
      const __m512 before = first ? _mm512_setzero_ps() : _mm512_load_ps(tile[i]);
      _mm512_store_ps(tile[i], _mm512_add_ps(before, sums[i]));
    }
    first = false;
  }
}
#endif

void add_tile(const Tile& tile, std::int64_t first_row, std::int64_t first_column, float* gram,
              std::int64_t n) {
  const std::int64_t rows = std::min(kPanelWidth, n - first_row);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* out = gram + (first_row + i) * n + first_column;
    if (first_column + kPanelWidth <= first_row) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        out[j] += tile[i][j];
      }
    } else {
      for (std::int64_t j = 0; j <= first_row + i - first_column; ++j) {
        out[j] += tile[i][j];
      }
    }
  }
}

void multiply_panels(const PackedSlab& slab, float* gram, std::int64_t n, SimdLevel level,
                     const std::stop_token& stop) {
  const std::int64_t panels = panel_count(n);
  alignas(64) Tile tile;
  for (std::int64_t block = 0; block < panels; block += kBlockPanels) {
    throw_if_stopped(stop);
    const std::int64_t block_end = std::min(panels, block + kBlockPanels);
    for (std::int64_t column = 0; column < block_end; ++column) {
      for (std::int64_t row = std::max(block, column); row < block_end; ++row) {
        const float* first = gram + row * kPanelWidth * n + column * kPanelWidth;
        for (std::int64_t i = 0; i < std::min(kPanelWidth, n - row * kPanelWidth); ++i) {
          __builtin_prefetch(first + i * n, 1);
        }
#if defined(__x86_64__)
        if (level >= SimdLevel::kAvx512Bf16) {
          tile_bf16(slab, row, column, tile);
        } else {
          tile_portable(slab, row, column, tile);
        }
#else
        tile_portable(slab, row, column, tile);
#endif
        add_tile(tile, row * kPanelWidth, column * kPanelWidth, gram, n);
      }
    }
  }
}

// Packs segment by segment, each padded to whole blocks of a matrix unit, in both layouts.
void pack_for_tiles(PackSource source, const std::vector<Segment>& segments,
                    std::int64_t code_bytes, std::int64_t panels, std::uint32_t* columns,
                    std::uint32_t* rows, SimdLevel level) {
  const std::byte* const codes = source.codes;
  std::int64_t blocks = 0;
  for (const Segment& segment : segments) {
    const std::int64_t padded = ceil_divide(segment.pairs, kTilePairs) * kTilePairs;
    source.codes =
        codes + segment.first * (source.contract_rows ? source.row_stride_bytes : code_bytes);
    source.depth = segment.length;
    std::uint32_t* const at = columns + segment.first_pair * kPanelWidth;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const bool is_held = panel < panel_count(source.gram_size);
      std::fill(at + panel * kPanelWords + (is_held ? segment.pairs : 0) * kPanelWidth,
                at + panel * kPanelWords + padded * kPanelWidth, 0U);
    }
    pack_gram_panels(source, at, level);
    blocks += padded / kTilePairs;
  }
  for (std::int64_t panel = 0; panel < panels; ++panel) {
    transpose_blocks(columns + panel * kPanelWords, rows + panel * kPanelWords, blocks, level);
  }
}

void multiply_on_unit(const PackedSlab& slab, const std::uint32_t* rows, float* gram,
                      std::int64_t n, TileProduct tiles, const std::stop_token& stop) {
  std::vector<TileSegment> segments;
  for (const Segment& segment : slab.segments) {
    segments.push_back({.first_block = segment.first_pair / kTilePairs,
                        .blocks = ceil_divide(segment.pairs, kTilePairs),
                        .scales = segment.scales});
  }
  // Up to kTileSegment of the contracted side are folded before the Gram is touched.
  std::vector<TileStretch> stretches;
  for (std::size_t first = 0; first < segments.size();) {
    std::size_t end = first;
    std::int64_t blocks = 0;
    while (end < segments.size() &&
           (end == first || (blocks + segments[end].blocks) * 2 * kTilePairs <= kTileSegment)) {
      blocks += segments[end++].blocks;
    }
    stretches.push_back(
        {.segments = segments.data() + first, .count = static_cast<std::int64_t>(end - first)});
    first = end;
  }
  tiles({.rows = {rows},
         .columns = {slab.panels},
         .panel_words = kPanelWords,
         .stretches = stretches,
         .products = part_products(1)},
        gram, n, stop);
}

float scale_at(const decode::Companion& scales, std::int64_t row, std::int64_t column) {
  const std::int64_t index = row * scales.cols + column;
  if (scales.type == decode::ElementType::kF32) {
    float value = 0.0F;
    std::memcpy(&value, scales.bytes.data() + index * 4, sizeof(value));
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, scales.bytes.data() + index * 2, sizeof(half));
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(half) << 16U);
}

}  // namespace

bool gram_bf16_takes(const decode::EncodedMatrix& slab, bool contract_rows) {
  const decode::Encoding& encoding = *slab.encoding;
  if (encoding.scheme == decode::Scheme::kPlain) {
    return encoding.type == decode::ElementType::kBF16;
  }
  if (encoding.scheme != decode::Scheme::kFp8Block ||
      encoding.type != decode::ElementType::kF8E4M3) {
    return false;
  }
  const decode::Companion* scales = slab.companion(decode::CompanionRole::kScale);
  const std::int32_t length = contract_rows ? encoding.block_rows : encoding.block_cols;
  return scales != nullptr &&
         (scales->type == decode::ElementType::kF32 ||
          scales->type == decode::ElementType::kBF16) &&
         length >= kMinScaleBlock && length % 2 == 0;
}

bool gram_bf16_is_fast(SimdLevel level, bool by_amd) {
  return level >= SimdLevel::kAvx512Bf16 && by_amd;
}

std::size_t gram_bf16_workspace_bytes(std::int64_t n, bool by_tiles) {
  const auto padded = static_cast<std::size_t>(held_panels(n, by_tiles) * kPanelWidth);
  const std::size_t layouts = by_tiles ? 2 : 1;
  return padded * (layouts * kPackDepth / 2 * sizeof(std::uint32_t) + kMaxSegments * sizeof(float));
}

void gram_bf16(const decode::EncodedMatrix& slab, bool contract_rows, float scale, float* gram,
               std::int64_t n, std::span<std::byte> workspace, SimdLevel level,
               const std::stop_token& stop, TileProduct tiles) {
  const bool by_tiles = tiles != nullptr;
  expects(gram_bf16_takes(slab, contract_rows), "encoding not exact in bfloat16");
  expects(n == (contract_rows ? slab.cols : slab.rows), "order of the Gram matrix");
  expects(workspace.size() >= gram_bf16_workspace_bytes(n, by_tiles), "Gram workspace too small");
  expects(reinterpret_cast<std::uintptr_t>(workspace.data()) % 64 == 0, "workspace alignment");
  const bool fp8 = slab.encoding->scheme == decode::Scheme::kFp8Block;
  const std::int64_t depth = contract_rows ? slab.rows : slab.cols;
  const std::int64_t first_contracted = contract_rows ? slab.first_row : slab.first_col;
  const std::int64_t first_gram = contract_rows ? slab.first_col : slab.first_row;
  const std::int64_t contracted_block =
      contract_rows ? slab.encoding->block_rows : slab.encoding->block_cols;
  const std::int64_t gram_block =
      contract_rows ? slab.encoding->block_cols : slab.encoding->block_rows;
  const std::int64_t held = held_panels(n, by_tiles);
  const std::int64_t padded = held * kPanelWidth;
  auto* panels = reinterpret_cast<std::uint32_t*>(workspace.data());
  auto* row_panels = panels + held * kPanelWords;
  auto* scale_vectors =
      reinterpret_cast<float*>(by_tiles ? row_panels + held * kPanelWords : row_panels);

  PackSource source;
  source.row_stride_bytes = slab.row_stride_bytes;
  source.fp8 = fp8;
  source.contract_rows = contract_rows;
  source.gram_size = n;
  // The scale of fp8 joins the block scales: codes stay in range whatever it is.
  source.multiplier = fp8 ? 1.0F : scale;

  for (std::int64_t start = 0; start < depth;) {
    // A pack ends where its depth or its room for scale vectors does.
    PackedSlab packed;
    packed.panels = panels;
    std::int64_t end = start;
    float* scales = scale_vectors;
    std::int64_t pairs = 0;  // of the segments so far, padding included
    while (end < depth && 2 * pairs < kPackDepth &&
           static_cast<std::int64_t>(packed.segments.size()) < kMaxSegments) {
      std::int64_t length = std::min(
          {by_tiles && !fp8 ? kTileSegment : kSegment, depth - end, kPackDepth - 2 * pairs});
      Segment segment;
      segment.first_pair = pairs;
      segment.first = end - start;
      if (fp8) {
        const std::int64_t position = first_contracted + end;
        length = std::min(length, contracted_block - position % contracted_block);
        const std::int64_t block = position / contracted_block;
        const decode::Companion& companion = *slab.companion(decode::CompanionRole::kScale);
        for (std::int64_t i = 0; i < padded; ++i) {
          const std::int64_t other = (first_gram + i) / gram_block;
          scales[i] = i < n ? scale * (contract_rows ? scale_at(companion, block, other)
                                                     : scale_at(companion, other, block))
                            : 0.0F;
        }
        segment.scales = scales;
        scales += padded;
      }
      segment.length = length;
      segment.pairs = (length + 1) / 2;
      pairs += by_tiles ? ceil_divide(segment.pairs, kTilePairs) * kTilePairs : segment.pairs;
      packed.segments.push_back(segment);
      end += length;
    }
    source.codes =
        slab.codes + (contract_rows ? start * slab.row_stride_bytes : start * (fp8 ? 1 : 2));
    if (by_tiles) {
      pack_for_tiles(source, packed.segments, fp8 ? 1 : 2, held, panels, row_panels, level);
      multiply_on_unit(packed, row_panels, gram, n, tiles, stop);
    } else {
      source.depth = end - start;
      pack_gram_panels(source, panels, level);
      multiply_panels(packed, gram, n, level, stop);
    }
    start = end;
  }
}

}  // namespace vindex::cpu
