// Owns the names and geometry of encodings, and the cutting of views.
#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>
#include <vindex/decode/encoding.hpp>
#include <vindex/decode/encoding_table.hpp>

#include <fmt/format.h>

namespace vindex::decode {
namespace {

// Bytes of `cols` columns that begin at a column where a row may be cut.
std::int64_t bytes_of_columns(const Encoding& encoding, std::int64_t cols) {
  if (encoding.scheme == Scheme::kPackedInt) {
    return cols / column_granularity(encoding) * 4;
  }
  const ElementTypeRow& row = element_type_row(encoding.type);
  return cols / row.block_elements * row.block_bytes;
}

}  // namespace

const Companion* EncodedMatrix::companion(CompanionRole role) const {
  for (std::int32_t i = 0; i < companion_count; ++i) {
    if (companions[static_cast<std::size_t>(i)].role == role) {
      return &companions[static_cast<std::size_t>(i)];
    }
  }
  return nullptr;
}

EncodedMatrix row_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  expects(first >= 0 && count >= 0 && first <= matrix.rows && count <= matrix.rows - first,
          "row_slab: rows inside the matrix");
  EncodedMatrix slab = matrix;
  slab.rows = count;
  slab.first_row += first;
  slab.codes += first * matrix.row_stride_bytes;
  return slab;
}

EncodedMatrix column_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  expects(matrix.encoding != nullptr, "column_slab: an encoding");
  expects(first >= 0 && count >= 0 && first <= matrix.cols && count <= matrix.cols - first,
          "column_slab: columns inside the matrix");
  const std::int64_t granularity = column_granularity(*matrix.encoding);
  expects(first % granularity == 0, "column_slab: first column at a block");
  expects(count % granularity == 0 || first + count == matrix.cols,
          "column_slab: last column at a block or at the end of the row");
  EncodedMatrix slab = matrix;
  slab.cols = count;
  slab.first_col += first;
  slab.codes += bytes_of_columns(*matrix.encoding, first);
  return slab;
}

std::int64_t column_granularity(const Encoding& encoding) {
  if (encoding.scheme == Scheme::kPackedInt) {
    // Whole words: 32 columns fill a whole number of them at any width, fewer where it divides 32.
    return encoding.bits > 0 && 32 % encoding.bits == 0 ? 32 / encoding.bits : 32;
  }
  return element_type_row(encoding.type).block_elements;
}

std::optional<std::uint64_t> row_bytes(const Encoding& encoding, std::uint64_t cols) {
  if (encoding.scheme == Scheme::kPackedInt) {
    if (encoding.bits <= 0 || encoding.bits > 32) {
      return std::nullopt;
    }
    const auto bits = checked_multiply(cols, static_cast<std::uint64_t>(encoding.bits));
    const auto padded = bits ? checked_round_up(*bits, 32) : std::nullopt;
    return padded ? std::optional(*padded / 8) : std::nullopt;
  }
  return stored_bytes(encoding.type, cols);
}

Encoding plain_encoding(ElementType type) {
  Encoding encoding;
  encoding.scheme = Scheme::kPlain;
  encoding.type = type;
  encoding.label = element_type_row(type).name;
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

}  // namespace vindex::decode
