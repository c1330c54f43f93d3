// Owns the loop over a matrix that every decoder is compiled into, once per SIMD level from the
// same text, and the rows of the table of decodable formats. Included by one source per list of
// decoders, which compile side by side.
#pragma once

#include "encoding_table.hpp"

#include "decode/formats/decode_view.hpp"
#include "decode/formats/visit_encoding.hpp"

#include <algorithm>
#include <bit>
#include <immintrin.h>

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

// Whole lines past the caches. The fence makes them visible in order with the stores that follow.
inline void stream_baseline(const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 4) {
    _mm_stream_ps(to + i, _mm_load_ps(from + i));
  }
}

[[gnu::target("avx2")]] inline void stream_avx2(const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 8) {
    _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
  }
}

[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] inline void stream_avx512(
    const float* from, float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) {
    _mm512_stream_ps(to + i, _mm512_load_ps(from + i));
  }
}

// `flatten` pulls the decoder's inline functions into each variant, where the compiler vectorises
// them for that variant's instruction set. No variant may use fused multiply-add: the build forbids
// contraction, and baseline processors lack it.
template <typename Decoder>
[[gnu::flatten]] void decode_baseline(const DecodeView& view, float* out, std::int64_t out_stride) {
  decode_rows<Decoder>(view, out, out_stride, stream_baseline);
  _mm_sfence();
}

template <typename Decoder>
[[gnu::flatten, gnu::target("avx2")]] void decode_avx2(const DecodeView& view, float* out,
                                                       std::int64_t out_stride) {
  decode_rows<Decoder>(view, out, out_stride, stream_avx2);
  _mm_sfence();
}

template <typename Decoder>
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void decode_avx512(
    const DecodeView& view, float* out, std::int64_t out_stride) {
  decode_rows<Decoder>(view, out, out_stride, stream_avx512);
  _mm_sfence();
}

template <typename Decoder>
constexpr FormatRow row_of() {
  return {Decoder::kScheme,
          Decoder::kType,
          Decoder::kBits,
          Decoder::kElements,
          {decode_baseline<Decoder>, decode_avx2<Decoder>, decode_avx512<Decoder>}};
}

template <typename... Decoders>
std::span<const FormatRow> rows_of(DecoderList<Decoders...> /*list*/) {
  static constexpr std::array<FormatRow, sizeof...(Decoders)> kRows{row_of<Decoders>()...};
  return kRows;
}

/// The rows of one list each.
std::span<const FormatRow> plain_rows();
std::span<const FormatRow> ggml_rows();
std::span<const FormatRow> scheme_rows();

}  // namespace vindex::decode
