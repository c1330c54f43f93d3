// Owns the arithmetic of rows, columns and planes of codes, scheme by scheme.
#include "code_layout.hpp"

#include "encoding.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::decode {
namespace {

constexpr std::int64_t kAwqRows = 8;  // rows whose codes share a word

std::optional<std::uint64_t> ceil_quotient(std::optional<std::uint64_t> a, std::uint64_t b) {
  return a ? std::optional(ceil_divide(*a, b)) : std::nullopt;
}

std::optional<std::uint64_t> product(std::optional<std::uint64_t> a,
                                     std::optional<std::uint64_t> b) {
  return a && b ? checked_multiply(*a, *b) : std::nullopt;
}

bool has_word_bits(const Encoding& encoding) { return encoding.bits > 0 && encoding.bits <= 32; }

// Bytes of `cols` columns that begin at a column where a row may be cut.
std::int64_t bytes_of_columns(const Encoding& encoding, std::int64_t cols) {
  switch (encoding.scheme) {
    case Scheme::kPackedInt:
    case Scheme::kAffineInt:
      return cols * encoding.bits / 8;
    case Scheme::kPackedIntPadded:
      return cols / column_granularity(encoding) * 4;
    default: {
      const ElementTypeRow& row = element_type_row(encoding.type);
      return cols / row.block_elements * row.block_bytes;
    }
  }
}

// Bytes per weight of a plane.
std::int64_t plane_unit(const Encoding& encoding) {
  return encoding.scheme == Scheme::kHqq && encoding.bits == 3 ? 4 : 1;
}

// Stored bytes [first, end) that hold the weights of a flat view; as numbers in the whole matrix.
std::pair<std::int64_t, std::int64_t> flat_range(const EncodedMatrix& view) {
  const Encoding& encoding = *view.encoding;
  const std::int64_t first = view.first_row * encoding.whole_cols + view.first_col;
  const std::int64_t last =
      (view.first_row + view.rows - 1) * encoding.whole_cols + view.first_col + view.cols - 1;
  if (encoding.scheme == Scheme::kLookup4) {
    return {first / 2, last / 2 + 1};
  }
  const std::int64_t unit = plane_unit(encoding);
  if (first / encoding.plane != last / encoding.plane) {
    return {0, encoding.plane * unit};
  }
  return {first % encoding.plane * unit, (last % encoding.plane + 1) * unit};
}

}  // namespace

CodeLayout code_layout(Scheme scheme) {
  switch (scheme) {
    case Scheme::kGptq:
    case Scheme::kAwq:
      return CodeLayout::kColumns;
    case Scheme::kLookup4:
    case Scheme::kHqq:
    case Scheme::kTernary:
      return CodeLayout::kFlat;
    default:
      return CodeLayout::kRows;
  }
}

std::int64_t column_granularity(const Encoding& encoding) {
  switch (encoding.scheme) {
    case Scheme::kPackedInt:
    case Scheme::kAffineInt:
    case Scheme::kGptq:
      // Whole words: 32 columns fill a whole number of them at any width, fewer where it
      // divides 32.
      return encoding.bits > 0 && 32 % encoding.bits == 0 ? 32 / encoding.bits : 32;
    case Scheme::kPackedIntPadded:
      return has_word_bits(encoding) ? 32 / encoding.bits : 1;
    case Scheme::kAwq:
    case Scheme::kLookup4:
    case Scheme::kHqq:
    case Scheme::kTernary:
      return 1;
    default:
      return element_type_row(encoding.type).block_elements;
  }
}

std::optional<std::uint64_t> row_bytes(const Encoding& encoding, std::uint64_t cols) {
  switch (encoding.scheme) {
    case Scheme::kPackedInt:
    case Scheme::kAffineInt: {
      if (!has_word_bits(encoding)) {
        return std::nullopt;
      }
      const auto bits = checked_multiply(cols, static_cast<std::uint64_t>(encoding.bits));
      return product(ceil_quotient(bits, 32), 4);
    }
    case Scheme::kPackedIntPadded:
      return has_word_bits(encoding)
                 ? product(ceil_quotient(cols, static_cast<std::uint64_t>(32 / encoding.bits)), 4)
                 : std::nullopt;
    default:
      return code_layout(encoding.scheme) == CodeLayout::kRows ? stored_bytes(encoding.type, cols)
                                                               : std::nullopt;
  }
}

std::optional<std::uint64_t> code_stride(const Encoding& encoding, std::uint64_t rows,
                                         std::uint64_t cols) {
  switch (encoding.scheme) {
    case Scheme::kGptq:
      return checked_multiply(rows, 4);
    case Scheme::kAwq:
      return rows % kAwqRows == 0 ? checked_multiply(rows / kAwqRows, 4) : std::nullopt;
    default:
      return code_layout(encoding.scheme) == CodeLayout::kFlat ? std::optional<std::uint64_t>(0)
                                                               : row_bytes(encoding, cols);
  }
}

std::optional<std::uint64_t> code_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols) {
  const auto stride = code_stride(encoding, rows, cols);
  switch (encoding.scheme) {
    case Scheme::kGptq: {
      const auto bits = product(cols, static_cast<std::uint64_t>(std::max(encoding.bits, 0)));
      return bits && *bits % 32 == 0 ? product(stride, *bits / 32) : std::nullopt;
    }
    case Scheme::kAwq:
      return product(stride, cols);
    case Scheme::kLookup4:
      return ceil_quotient(product(rows, cols), 2);
    case Scheme::kHqq:
    case Scheme::kTernary:
      return encoding.plane > 0 ? product(static_cast<std::uint64_t>(encoding.plane),
                                          static_cast<std::uint64_t>(plane_unit(encoding)))
                                : std::nullopt;
    default:
      return product(stride, rows);
  }
}

std::optional<std::uint64_t> slab_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols) {
  switch (encoding.scheme) {
    case Scheme::kGptq:
      return product(ceil_quotient(product(cols, static_cast<std::uint64_t>(encoding.bits)), 32),
                     product(rows, 4));
    case Scheme::kAwq:
      return product(rows / kAwqRows + 2, product(cols, 4));
    case Scheme::kLookup4: {
      // A slab of columns keeps what lies between its rows.
      const auto whole = static_cast<std::uint64_t>(encoding.whole_cols);
      const auto weights = product(rows, std::max(whole, cols));
      return weights ? std::optional(*weights / 2 + 1) : std::nullopt;
    }
    case Scheme::kHqq:
    case Scheme::kTernary:
      return code_bytes(encoding, rows, cols);  // it may wrap from one plane to the next
    default:
      return product(row_bytes(encoding, cols), rows);
  }
}

Cut cut_rows(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  expects(first >= 0 && count >= 0 && first <= matrix.rows && count <= matrix.rows - first,
          "row_slab: rows inside the matrix");
  Cut cut{matrix, 0};
  cut.view.rows = count;
  cut.view.first_row += first;
  const Scheme scheme = matrix.encoding == nullptr ? Scheme::kPlain : matrix.encoding->scheme;
  if (scheme == Scheme::kGptq) {
    cut.offset = first * 4;
  } else if (scheme == Scheme::kAwq) {
    cut.offset = (cut.view.first_row / kAwqRows - matrix.first_row / kAwqRows) * 4;
  } else if (code_layout(scheme) == CodeLayout::kRows) {
    cut.offset = first * matrix.row_stride_bytes;
  }
  return cut;
}

Cut cut_columns(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  expects(matrix.encoding != nullptr, "column_slab: an encoding");
  const Encoding& encoding = *matrix.encoding;
  expects(first >= 0 && count >= 0 && first <= matrix.cols && count <= matrix.cols - first,
          "column_slab: columns inside the matrix");
  const std::int64_t granularity = column_granularity(encoding);
  expects(first % granularity == 0, "column_slab: first column at a block");
  expects(count % granularity == 0 || first + count == matrix.cols,
          "column_slab: last column at a block or at the end of the row");
  Cut cut{matrix, 0};
  cut.view.cols = count;
  cut.view.first_col += first;
  if (encoding.scheme == Scheme::kGptq) {
    cut.offset = first * encoding.bits / 32 * matrix.row_stride_bytes;
  } else if (encoding.scheme == Scheme::kAwq) {
    cut.offset = first * matrix.row_stride_bytes;
  } else if (code_layout(encoding.scheme) == CodeLayout::kRows) {
    cut.offset = bytes_of_columns(encoding, first);
  }
  return cut;
}

EncodedMatrix row_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  Cut cut = cut_rows(matrix, first, count);
  cut.view.codes += cut.offset;
  return cut.view;
}

EncodedMatrix column_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count) {
  Cut cut = cut_columns(matrix, first, count);
  cut.view.codes += cut.offset;
  return cut.view;
}

CodeWindow code_window(const EncodedMatrix& view) {
  expects(view.encoding != nullptr, "code_window: an encoding");
  const Encoding& encoding = *view.encoding;
  if (view.rows == 0 || view.cols == 0) {
    return {};
  }
  switch (code_layout(encoding.scheme)) {
    case CodeLayout::kFlat: {
      const auto [first, end] = flat_range(view);
      return {first - view.code_origin, end - first, 1, end - first};
    }
    case CodeLayout::kColumns: {
      if (encoding.scheme == Scheme::kGptq) {
        return {0, view.rows * 4, ceil_divide(view.cols * encoding.bits, 32),
                view.row_stride_bytes};
      }
      const std::int64_t words =
          ceil_divide(view.first_row + view.rows, kAwqRows) - view.first_row / kAwqRows;
      return {0, words * 4, view.cols, view.row_stride_bytes};
    }
    default: {
      const auto width = row_bytes(encoding, static_cast<std::uint64_t>(view.cols));
      expects(width.has_value(), "code_window: whole blocks in a row");
      return {0, static_cast<std::int64_t>(*width), view.rows, view.row_stride_bytes};
    }
  }
}

EncodedMatrix with_codes(const EncodedMatrix& view, const std::byte* codes) {
  const CodeWindow window = code_window(view);
  EncodedMatrix copy = view;
  copy.codes = codes;
  copy.row_stride_bytes = window.width;
  copy.code_origin += window.offset;
  return copy;
}

}  // namespace vindex::decode
