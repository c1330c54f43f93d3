// Owns decoding piece by piece for sums over scales.
#include "decoded_scales.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace vindex::commands {

namespace {

constexpr std::int64_t kDecodedAtOnce = static_cast<std::int64_t>(kDecodedBytes / sizeof(float));

}  // namespace

void add_decoded(const decode::EncodedMatrix& view, std::int64_t whole_cols,
                 statistics::ScaleSums& sums) {
  const std::int64_t granularity = decode::column_granularity(*view.encoding);
  const std::int64_t width =
      std::min(view.cols, std::max(granularity, kDecodedAtOnce / granularity * granularity));
  const std::int64_t height = std::max<std::int64_t>(1, kDecodedAtOnce / width);
  // Kept by the thread: fresh pages cost more than decoding into them.
  thread_local std::vector<float> values;
  values.resize(
      std::max(values.size(), static_cast<std::size_t>(width * std::min(height, view.rows))));
  for (std::int64_t row = 0; row < view.rows; row += height) {
    const std::int64_t rows = std::min(height, view.rows - row);
    const decode::EncodedMatrix strip = decode::row_slab(view, row, rows);
    for (std::int64_t col = 0; col < view.cols; col += width) {
      const std::int64_t cols = std::min(width, view.cols - col);
      decode::decode_matrix(cols == view.cols ? strip : decode::column_slab(strip, col, cols),
                            values.data(), cols);
      const std::int64_t first = (view.first_row + row) * whole_cols + view.first_col + col;
      const std::span<float> decoded(values.data(), static_cast<std::size_t>(rows * cols));
      if (cols == whole_cols) {
        sums.add(first, decoded);
        continue;
      }
      for (std::int64_t r = 0; r < rows; ++r) {
        sums.add(first + r * whole_cols, decoded.subspan(static_cast<std::size_t>(r * cols),
                                                         static_cast<std::size_t>(cols)));
      }
    }
  }
}

statistics::ScaleFigures scales_of(const decode::EncodedMatrix& matrix,
                                   std::optional<std::uint64_t> sign_key) {
  const std::int64_t size = matrix.rows * matrix.cols;
  if (size < statistics::kLeastScaled) {
    return {};
  }
  statistics::ScaleSums sums(size, sign_key);
  add_decoded(matrix, matrix.cols, sums);
  return sums.figures();
}

void SlabScales::add(const decode::EncodedMatrix& slab) {
  const bool is_rows = slab.cols == cols_;
  // A matrix whose slabs are of rows has all columns of what it has, and the other way round.
  if (is_complete() || (is_rows ? next_col_ : next_row_) > 0) {
    return;
  }
  std::int64_t& next = is_rows ? next_row_ : next_col_;
  const std::int64_t first = is_rows ? slab.first_row : slab.first_col;
  const std::int64_t count = is_rows ? slab.rows : slab.cols;
  if (first > next || first + count <= next) {
    return;
  }
  const std::int64_t skipped = next - first;
  if (is_rows) {
    add_decoded(decode::row_slab(slab, skipped, count - skipped), cols_, sums_);
  } else {
    add_decoded(decode::column_slab(slab, skipped, count - skipped), cols_, sums_);
  }
  next = first + count;
}

}  // namespace vindex::commands
