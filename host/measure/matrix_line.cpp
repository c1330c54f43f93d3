#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/measure/matrix_line.hpp>

#include <algorithm>

namespace vindex::measure {
namespace {

std::vector<float> stored_row(MatrixInput& matrix, std::int64_t row) {
  expects(row >= 0 && row < matrix.rows(), "a row of the matrix");
  std::vector<float> values(static_cast<std::size_t>(matrix.cols()));
  decode::decode_matrix(matrix.row_slab(row, 1), values.data(), matrix.cols());
  return values;
}

/// Cut at the blocks around it.
std::vector<float> stored_column(MatrixInput& matrix, std::int64_t col) {
  expects(col >= 0 && col < matrix.cols(), "a column of the matrix");
  const std::int64_t unit =
      std::max<std::int64_t>(1, decode::column_granularity(matrix.encoding()));
  const std::int64_t first = col / unit * unit;
  const std::int64_t count = std::min(unit, matrix.cols() - first);
  std::vector<float> block(static_cast<std::size_t>(matrix.rows() * count));
  decode::decode_matrix(matrix.column_slab(first, count), block.data(), count);
  std::vector<float> values(static_cast<std::size_t>(matrix.rows()));
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    values[static_cast<std::size_t>(row)] =
        block[static_cast<std::size_t>(row * count + (col - first))];
  }
  return values;
}

}  // namespace

std::vector<float> logical_row(MatrixInput& matrix, std::int64_t row) {
  return matrix.transposed() ? stored_column(matrix, row) : stored_row(matrix, row);
}

std::vector<float> logical_column(MatrixInput& matrix, std::int64_t col) {
  return matrix.transposed() ? stored_row(matrix, col) : stored_column(matrix, col);
}

}  // namespace vindex::measure
