// Owns cutting stored rows and columns, and turning the latter.
#include "decoded_part.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace vindex::commands {

namespace {

std::vector<float> stored_rows(MatrixInput& matrix, std::int64_t first, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count * matrix.cols()));
  decode::decode_matrix(matrix.row_slab(first, count), values.data(), matrix.cols());
  return values;
}

/// Each as a row.
std::vector<float> stored_columns(MatrixInput& matrix, std::int64_t first, std::int64_t count) {
  const std::int64_t unit =
      std::max<std::int64_t>(1, decode::column_granularity(matrix.encoding()));
  const std::int64_t begin = first / unit * unit;
  const std::int64_t end = std::min(matrix.cols(), (first + count + unit - 1) / unit * unit);
  const std::int64_t width = end - begin;
  const std::int64_t rows = matrix.rows();
  std::vector<float> block(static_cast<std::size_t>(rows * width));
  decode::decode_matrix(matrix.column_slab(begin, width), block.data(), width);
  std::vector<float> values(static_cast<std::size_t>(count * rows));
  // A few columns at a time: what they share of a line of the cache is read once.
  constexpr std::int64_t kAtOnce = 16;
  for (std::int64_t some = 0; some < count; some += kAtOnce) {
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* const from = block.data() + row * width + (first - begin);
      for (std::int64_t i = some; i < std::min(count, some + kAtOnce); ++i) {
        values[static_cast<std::size_t>(i * rows + row)] = from[i];
      }
    }
  }
  return values;
}

}  // namespace

std::vector<float> decoded_rows(MatrixInput& matrix, std::int64_t first, std::int64_t step,
                                std::int64_t count) {
  const std::int64_t span = (count - 1) * step + 1;
  std::vector<float> values =
      matrix.transposed() ? stored_columns(matrix, first, span) : stored_rows(matrix, first, span);
  if (step > 1) {
    const auto width = std::ssize(values) / span;
    for (std::int64_t i = 1; i < count; ++i) {
      std::copy_n(values.begin() + i * step * width, width, values.begin() + i * width);
    }
    values.resize(static_cast<std::size_t>(count * width));
  }
  return values;
}

std::vector<float> decoded_columns(MatrixInput& matrix, std::int64_t first, std::int64_t count) {
  return matrix.transposed() ? stored_rows(matrix, first, count)
                             : stored_columns(matrix, first, count);
}

}  // namespace vindex::commands
