// Owns the names of encodings.
#include "encoding.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::decode {

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

const Encoding& float32_encoding() {
  static const Encoding encoding = plain_encoding(ElementType::kF32);
  return encoding;
}

}  // namespace vindex::decode
