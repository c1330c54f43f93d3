// Owns the table of decodable formats and the loops behind it: every decoder's row() compiled once
// per SIMD level, from the same text.
#include <vindex/decode/encoding_table.hpp>
#include <vindex/decode/visit_encoding.hpp>

namespace vindex::decode {
namespace {

// `flatten` pulls the decoder's inline functions into each variant, where the compiler vectorises
// them for that variant's instruction set. No variant may use fused multiply-add: the build forbids
// contraction, and baseline processors lack it.
template <typename Decoder>
[[gnu::flatten]] void decode_baseline(const DecodeView& view, float* out, std::int64_t out_stride) {
  for (std::int64_t row = 0; row < view.rows; ++row) {
    Decoder::row(view, row, out + row * out_stride);
  }
}

template <typename Decoder>
[[gnu::flatten, gnu::target("avx2")]] void decode_avx2(const DecodeView& view, float* out,
                                                       std::int64_t out_stride) {
  for (std::int64_t row = 0; row < view.rows; ++row) {
    Decoder::row(view, row, out + row * out_stride);
  }
}

template <typename Decoder>
[[gnu::flatten, gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void decode_avx512(
    const DecodeView& view, float* out, std::int64_t out_stride) {
  for (std::int64_t row = 0; row < view.rows; ++row) {
    Decoder::row(view, row, out + row * out_stride);
  }
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

}  // namespace

std::span<const FormatRow> format_rows() { return rows_of(AllDecoders{}); }

const FormatRow* find_format(const Encoding& encoding) {
  for (const FormatRow& row : format_rows()) {
    if (row.scheme == encoding.scheme && row.type == encoding.type && row.bits == encoding.bits) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace vindex::decode
