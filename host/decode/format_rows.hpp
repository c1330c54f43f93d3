// Owns the compiled loops behind the table of decodable formats, once per SIMD level from the same
// text. Included by one source per list of decoders, which compile side by side.
#pragma once

#include "decode_loops.hpp"

#include <vindex/decode/encoding_table.hpp>
#include <vindex/decode/visit_encoding.hpp>

#include <immintrin.h>

namespace vindex::decode {

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
