// Owns the inputs and options of derived rows: a plain view, weights scaled by activations, a
// placeholder.
#include <vindex/decode/encoding.hpp>
#include <vindex/engine/derived_rows.hpp>
#include <vindex/measure/derived_input.hpp>
#include <vindex/model/importance_matrix.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace vindex::engine {

using model::ResultTable;

measure::MeasureOptions options_for(ResultTable table, measure::MeasureOptions options) {
  if (table == ResultTable::kImatrix) {
    options.sign_flip_draws = std::max(options.sign_flip_draws, 1);
  }
  return options;
}

const decode::Encoding& measured_encoding(const model::MatrixRecord& matrix) {
  return matrix.table == ResultTable::kMatrix ? matrix.encoding : decode::float32_encoding();
}

InputMemory input_memory(const model::MatrixRecord& matrix) {
  if (matrix.table != ResultTable::kImatrix) {
    return {};
  }
  return {.working = measure::arranged_slab_bytes(matrix.rows, matrix.cols),
          .lasting = static_cast<std::uint64_t>(matrix.cols) * sizeof(double)};
}

std::unique_ptr<measure::MatrixInput> derived_input(const model::MatrixRecord& matrix,
                                                    std::unique_ptr<measure::MatrixInput> stored) {
  if (matrix.table != ResultTable::kImatrix) {
    return stored;
  }
  return measure::make_scaled_input(std::move(stored), model::activation_scale(matrix));
}

std::unique_ptr<measure::MatrixInput> placeholder_input(
    const model::MatrixRecord& matrix, std::unique_ptr<measure::MatrixInput> stored) {
  if (matrix.table != ResultTable::kImatrix) {
    return stored;
  }
  return measure::make_scaled_input(
      std::move(stored), std::vector<double>(static_cast<std::size_t>(matrix.cols), 0.0));
}

}  // namespace vindex::engine
