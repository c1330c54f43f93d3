// Owns the names of encodings, the table of decodable formats, put together from its lists, and
// what makes an encoding decodable.
#include "encoding.hpp"

#include "decode/encoding_table.hpp"
#include "decode/format_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <vector>

namespace vindex::decode {

const Companion* EncodedMatrix::companion(CompanionRole role) const {
  for (std::int32_t i = 0; i < companion_count; ++i) {
    if (companions[static_cast<std::size_t>(i)].role == role) {
      return &companions[static_cast<std::size_t>(i)];
    }
  }
  return nullptr;
}

Encoding plain_encoding(ElementType type) {
  Encoding encoding;
  encoding.scheme = Scheme::kPlain;
  encoding.type = type;
  encoding.label = element_type_row(type).name;
  return encoding;
}

Encoding factored_encoding(ElementType type) {
  Encoding encoding = plain_encoding(type);
  encoding.scheme = Scheme::kFactoredBlocks;
  encoding.block_rows = 0;  // one scale for all rows and columns
  encoding.block_cols = 0;
  return encoding;
}

Encoding fp8_block_encoding(std::int32_t block_rows, std::int32_t block_cols) {
  expects(block_rows > 0 && block_cols > 0, "fp8_block_encoding: positive block sides");
  Encoding encoding;
  encoding.scheme = Scheme::kFp8Block;
  encoding.type = ElementType::kF8E4M3;
  encoding.block_rows = block_rows;
  encoding.block_cols = block_cols;
  encoding.label = fmt::format("F8_E4M3/{}x{}", block_rows, block_cols);
  return encoding;
}

Encoding packed_int_encoding(std::int32_t bits, std::int32_t group) {
  expects(bits > 0 && bits <= 8 && group >= 0, "packed_int_encoding: 1 to 8 bits, group >= 0");
  Encoding encoding;
  encoding.scheme = Scheme::kPackedInt;
  encoding.type = ElementType::kI32;
  encoding.bits = bits;
  encoding.block_rows = 1;
  encoding.block_cols = group;
  encoding.label =
      group == 0 ? fmt::format("INT{}/channel", bits) : fmt::format("INT{}/g{}", bits, group);
  return encoding;
}

bool is_decodable(const Encoding& encoding) { return find_format(encoding) != nullptr; }

const Encoding& float32_encoding() {
  static const Encoding encoding = plain_encoding(ElementType::kF32);
  return encoding;
}

EncodedMatrix float32_view(const float* values, std::int64_t rows, std::int64_t cols) {
  EncodedMatrix view;
  view.encoding = &float32_encoding();
  view.rows = rows;
  view.cols = cols;
  view.codes = reinterpret_cast<const std::byte*>(values);
  view.row_stride_bytes = cols * static_cast<std::int64_t>(sizeof(float));
  return view;
}

std::span<const FormatRow> format_rows() {
  static const std::vector<FormatRow> kRows = [] {
    std::vector<FormatRow> rows;
    for (const auto part : {plain_rows(), ggml_rows(), scheme_rows()}) {
      rows.insert(rows.end(), part.begin(), part.end());
    }
    return rows;
  }();
  return kRows;
}

const FormatRow* find_format(const Encoding& encoding) {
  for (const FormatRow& row : format_rows()) {
    if (row.scheme == encoding.scheme && row.type == encoding.type && row.bits == encoding.bits) {
      return &row;
    }
  }
  return nullptr;
}

}  // namespace vindex::decode
