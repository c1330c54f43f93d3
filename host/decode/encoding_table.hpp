// Owns the shape of the host's table of decodable formats: one row per decoder of AllDecoders
// (decode/formats/visit_encoding.hpp), with its loops per SIMD level. Encoders are apart
// (decode/encode/encode.hpp): few formats are written.
#pragma once

#include "simd_level.hpp"

#include "decode/encoding/encoding.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::decode {

struct DecodeView;

/// Writes view.rows x view.cols floats, `out_stride` floats from row to row.
using DecodeFunction = void (*)(const DecodeView& view, float* out, std::int64_t out_stride);

struct FormatRow {
  Scheme scheme = Scheme::kPlain;
  ElementType type = ElementType::kF32;
  std::int32_t bits = 0;
  std::int32_t elements = 1;  ///< columns stored together: column_granularity()
  std::array<DecodeFunction, static_cast<std::size_t>(SimdLevel::kCount)> decode{};
};

/// One row per decodable format.
std::span<const FormatRow> format_rows();

/// The row of `encoding`, or null where this build cannot decode it.
const FormatRow* find_format(const Encoding& encoding);

/// True where decode_matrix() can decode it in this build; else the reason is the row status
/// `unsupported`.
bool is_decodable(const Encoding& encoding);

}  // namespace vindex::decode
