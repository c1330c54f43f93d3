// Owns taking every so-manyth weight without decoding what lies between.
#include "decode_matrix.hpp"

#include "bind_view.hpp"
#include "encoding_table.hpp"
#include "simd_level.hpp"

#include "core/integers.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/formats/visit_encoding.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <vector>

namespace vindex::decode {

void decode_matrix_at(SimdLevel level, const EncodedMatrix& matrix, float* out,
                      std::int64_t out_stride) {
  expects(is_supported(level), "decode_matrix_at: a level this processor runs");
  const DecodeView view = decode_view(matrix);
  expects(out_stride >= view.cols, "decode_matrix: out_stride >= cols");
  find_format(*matrix.encoding)->decode[static_cast<std::size_t>(level)](view, out, out_stride);
}

void decode_matrix(const EncodedMatrix& matrix, float* out, std::int64_t out_stride) {
  decode_matrix_at(best_simd_level(), matrix, out, out_stride);
}

void decode_row(const Encoding& encoding, std::span<const std::byte> codes, std::span<float> out) {
  EncodedMatrix row;
  row.encoding = &encoding;
  row.rows = 1;
  row.cols = static_cast<std::int64_t>(out.size());
  row.codes = codes.data();
  row.row_stride_bytes = static_cast<std::int64_t>(codes.size());
  decode_matrix(row, out.data(), row.cols);
}

namespace {

/// Where a row has a weight for every fourth of its columns or more, the row is decoded as a whole.
constexpr std::int64_t kWholeRowStride = 4;

}  // namespace

std::int64_t decode_strided(const EncodedMatrix& view, std::int64_t whole_cols, std::int64_t stride,
                            std::span<float> out) {
  expects(stride >= 1 && view.first_col + view.cols <= whole_cols,
          "decode_strided: a view inside its matrix");
  const auto size = static_cast<std::int64_t>(out.size());
  std::int64_t written = 0;
  // Calls `take(row, first, last)`: of row `row` of the view, samples [first, last) lie in it.
  const auto each_row = [&](auto&& take) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      const std::int64_t begin = (view.first_row + row) * whole_cols + view.first_col;
      const std::int64_t first = ceil_divide(begin, stride);
      const std::int64_t last = std::min(size, ceil_divide(begin + view.cols, stride));
      if (first >= size) {
        return;
      }
      if (first < last) {
        take(row, first, last, begin);
        written += last - first;
      }
    }
  };
  if (stride <= kWholeRowStride) {
    std::vector<float> values(static_cast<std::size_t>(view.cols));
    each_row([&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t begin) {
      decode_matrix(row_slab(view, row, 1), values.data(), view.cols);
      for (std::int64_t i = first; i < last; ++i) {
        out[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(i * stride - begin)];
      }
    });
    return written;
  }
  const DecodeView flat = decode_view(view);
  const bool known = visit_encoding(*view.encoding, [&]<typename Decoder>(Decoder /*decoder*/) {
    each_row([&](std::int64_t row, std::int64_t first, std::int64_t last, std::int64_t begin) {
      for (std::int64_t i = first; i < last; ++i) {
        out[static_cast<std::size_t>(i)] = Decoder::at(flat, row, i * stride - begin);
      }
    });
  });
  expects(known, "decode_strided: an encoding that can be decoded");
  return written;
}

}  // namespace vindex::decode
