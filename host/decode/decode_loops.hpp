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

/// Decodes `view` to `out`; `stream(from, to, count)` copies whole lines past the caches.
template <typename Decoder, typename Stream>
void decode_rows(const DecodeView& view, float* out, std::int64_t out_stride, Stream stream) {
  if constexpr (Decoder::kScheme == Scheme::kPlain) {
    const bool streamed = is_streamed(view, out, out_stride);
    const std::int64_t step = streamed ? kPiece : view.cols;
    alignas(64) float piece[kPiece];
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t col = 0; col < view.cols; col += step) {
        DecodeView part = view;
        part.cols = std::min(step, view.cols - col);
        part.codes += row * view.row_stride_bytes + col / Decoder::kElements * Decoder::kBytes;
        float* to = out + row * out_stride + col;
        if (streamed) {
          const std::int64_t bytes = part.cols / Decoder::kElements * Decoder::kBytes;
          for (std::int64_t byte = 0; byte < bytes; byte += 64) {
            __builtin_prefetch(part.codes + kBytesAhead + byte);
          }
        }
        Decoder::row(part, 0, streamed ? piece : to);
        if (streamed) {
          stream(piece, to, part.cols);
        }
      }
    }
  } else if constexpr (requires { Decoder::all(view, out, out_stride); }) {
    Decoder::all(view, out, out_stride);
  } else {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      Decoder::row(view, row, out + row * out_stride);
    }
  }
}

}  // namespace vindex::decode
