// Owns the loop over a matrix that every decoder is compiled into, once per SIMD level.
#pragma once

#include <vindex/decode/decode_view.hpp>

#include <algorithm>
#include <bit>

namespace vindex::decode {

/// Results beyond this stay in no core's share of a cache.
inline constexpr std::int64_t kStreamedFloats = 4 << 20;
inline constexpr std::int64_t kFloatsPerLine = 16;
/// Columns decoded at a time on the way past the caches: few enough that the stores of one piece
/// drain while the next is decoded.
inline constexpr std::int64_t kPiece = 512;
/// How far ahead codes are fetched there: hardware does not look beyond a page.
inline constexpr std::int64_t kBytesAhead = 2048;

/// Whether to write past the caches: a large result in whole lines. An ordinary store first reads
/// the line that it is going to overwrite, a third of all traffic.
inline bool is_streamed(const DecodeView& view, const float* out, std::int64_t out_stride) {
  return view.cols > 0 && view.rows > kStreamedFloats / view.cols &&
         view.cols % kFloatsPerLine == 0 && out_stride % kFloatsPerLine == 0 &&
         std::bit_cast<std::uintptr_t>(out) % (kFloatsPerLine * sizeof(float)) == 0;
}

/// Decodes a view whose codes lie transposed, in tiles: all columns of a few rows, then the next.
template <typename Decoder, typename Stream>
void decode_strips(const DecodeView& view, float* out, std::int64_t out_stride, Stream stream) {
  const bool streamed = is_streamed(view, out, out_stride);
  alignas(64) float tile[Decoder::kTileRows * Decoder::kTileCols];
  for (std::int64_t row = 0; row < view.rows; row += Decoder::kTileRows) {
    const auto rows = static_cast<int>(std::min<std::int64_t>(Decoder::kTileRows, view.rows - row));
    const typename Decoder::Strip strip(view, row, rows);
    for (std::int64_t col = 0; col < view.cols; col += Decoder::kTileCols) {
      const auto cols =
          static_cast<int>(std::min<std::int64_t>(Decoder::kTileCols, view.cols - col));
      float* to = out + row * out_stride + col;
      if (!streamed) {
        strip.decode(col, cols, to, out_stride);
        continue;
      }
      strip.decode(col, cols, tile, Decoder::kTileCols);
      for (int r = 0; r < rows; ++r) {
        stream(tile + r * Decoder::kTileCols, to + r * out_stride, cols);
      }
    }
  }
}

/// Whether decoding is faster than memory takes its results. Slower decoders overlap ordinary
/// stores with their arithmetic, and would only pay for the copy.
template <typename Decoder>
constexpr bool is_quick =
    Decoder::kScheme == Scheme::kPlain || Decoder::kScheme == Scheme::kPackedInt ||
    Decoder::kScheme == Scheme::kAffineInt || Decoder::kScheme == Scheme::kScaledInt ||
    Decoder::kScheme == Scheme::kBnbInt8;

/// Columns [col, col + cols) of one row of `view`, as a view.
template <typename Decoder>
DecodeView piece_of(const DecodeView& view, std::int64_t row, std::int64_t col, std::int64_t cols) {
  DecodeView piece = view;
  if constexpr (Decoder::kBytes > 0) {
    piece.codes += row * view.row_stride_bytes + col / Decoder::kElements * Decoder::kBytes;
  }
  piece.first_row += row;
  piece.first_col += col;
  piece.rows = 1;
  piece.cols = cols;
  return piece;
}

/// Decodes `view` to `out`; `stream(from, to, count)` copies whole lines past the caches.
template <typename Decoder, typename Stream>
void decode_rows(const DecodeView& view, float* out, std::int64_t out_stride, Stream stream) {
  if constexpr (requires { typename Decoder::Strip; }) {
    decode_strips<Decoder>(view, out, out_stride, stream);
    return;
  } else {
    // Tables for group indices are made per call of row(): whole rows.
    const bool streamed = is_quick<Decoder> && kPiece % Decoder::kElements == 0 &&
                          companion(view, CompanionRole::kGroupIndex) == nullptr &&
                          is_streamed(view, out, out_stride);
    const std::int64_t step = streamed ? kPiece : view.cols;
    alignas(64) float decoded[kPiece];
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t col = 0; col < view.cols; col += step) {
        const std::int64_t cols = std::min(step, view.cols - col);
        const DecodeView piece = piece_of<Decoder>(view, row, col, cols);
        float* to = out + row * out_stride + col;
        if (!streamed) {
          Decoder::row(piece, 0, to);
          continue;
        }
        const std::int64_t bytes = cols / Decoder::kElements * Decoder::kBytes;
        for (std::int64_t byte = 0; byte < bytes; byte += 64) {
          __builtin_prefetch(piece.codes + kBytesAhead + byte);
        }
        Decoder::row(piece, 0, decoded);
        stream(decoded, to, cols);
      }
    }
  }
}

}  // namespace vindex::decode
