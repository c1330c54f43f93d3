// Owns where the codes of a matrix lie: sizes of rows and matrices, the cutting of views, and the
// bytes that a view needs. Everything that depends on how a scheme packs its codes is here.
#pragma once

#include "encoded_matrix.hpp"
#include "encoding.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>

namespace vindex::decode {

/// How the codes of a matrix lie in its stored bytes, which says how views are cut.
enum class CodeLayout : std::uint8_t {
  kRows,     ///< one row after the other, each in bytes of its own
  kColumns,  ///< stored transposed: a row of bytes holds (groups of) columns
  kFlat,     ///< one run over all weights; a view keeps the whole matrix's bytes
};
CodeLayout code_layout(Scheme scheme);

/// Bytes in memory or in a file: `height` runs of `width` bytes, `stride` bytes from one to the
/// next, the first `offset` bytes after a base that the giver names.
struct CodeWindow {
  std::int64_t offset = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t stride = 0;
};

/// The bytes of `view.codes` that its weights need (offset from view.codes): what a copy must hold.
CodeWindow code_window(const EncodedMatrix& view);

/// `view` over a copy of its code_window() at `codes`, runs packed without gaps.
EncodedMatrix with_codes(const EncodedMatrix& view, const std::byte* codes);

/// A part of a matrix as a view whose `codes` is still the matrix's, and how many bytes later it
/// must point. For matrices whose codes are not in memory; row_slab() and column_slab() otherwise.
struct Cut {
  EncodedMatrix view;
  std::int64_t offset = 0;
};
Cut cut_rows(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);
Cut cut_columns(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// The view of rows [first, first + count) of `matrix`. Errors: expects() on a range outside or off
/// a block boundary.
EncodedMatrix row_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// The view of columns [first, first + count); `first` must be a multiple of column_granularity().
EncodedMatrix column_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// Smallest number of columns at which a row of codes may be cut (a block, or the words of a packed
/// group).
std::int64_t column_granularity(const Encoding& encoding);

/// Bytes of one row of `cols` weights; nothing where cols is no multiple of what the encoding can
/// store, or where rows have no bytes of their own (code_layout() other than kRows).
std::optional<std::uint64_t> row_bytes(const Encoding& encoding, std::uint64_t cols);

/// Bytes of the codes of a whole matrix; nothing where the encoding cannot store that shape.
std::optional<std::uint64_t> code_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols);

/// Bytes between the stored rows of a whole matrix of that shape: row_stride_bytes. 0 where kFlat.
std::optional<std::uint64_t> code_stride(const Encoding& encoding, std::uint64_t rows,
                                         std::uint64_t cols);

/// Most bytes that the code_window() of a view of rows x cols can hold, wherever it is cut.
std::optional<std::uint64_t> slab_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols);

}  // namespace vindex::decode
