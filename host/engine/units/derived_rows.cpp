// Owns the inputs and options of derived rows (a plain view, weights scaled by activations, a
// placeholder), and of products: reading factors window by window, and measuring the product from
// them.
#include "derived_rows.hpp"

#include "backend/derived_input.hpp"
#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/units/matrix_loader.hpp"
#include "model/importance/importance_matrix.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <stop_token>
#include <utility>
#include <vector>

namespace vindex::engine {

using model::ResultTable;

MeasureOptions options_for(ResultTable table, MeasureOptions options) {
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
  return {.working = arranged_slab_bytes(matrix.rows, matrix.cols),
          .lasting = static_cast<std::uint64_t>(matrix.cols) * sizeof(double)};
}

std::unique_ptr<MatrixInput> derived_input(const model::MatrixRecord& matrix,
                                           std::unique_ptr<MatrixInput> stored) {
  if (matrix.table != ResultTable::kImatrix) {
    return stored;
  }
  return make_scaled_input(std::move(stored), model::activation_scale(matrix));
}

std::unique_ptr<MatrixInput> placeholder_input(const model::MatrixRecord& matrix,
                                               std::unique_ptr<MatrixInput> stored) {
  if (matrix.table != ResultTable::kImatrix) {
    return stored;
  }
  return make_scaled_input(std::move(stored),
                           std::vector<double>(static_cast<std::size_t>(matrix.cols), 0.0));
}

namespace {

constexpr std::int64_t kFactorSlab = 1 << 20;  ///< 4 MiB of float32

/// A window in stored rows and columns, and whether it enters transposed from there.
struct StoredWindow {
  std::int64_t first_row, rows, first_col, cols;
  bool transposed;
};

StoredWindow stored_window(const model::ProductFactor& factor) {
  if (factor.matrix->transposed) {
    return {factor.first_col, factor.cols, factor.first_row, factor.rows, !factor.transposed};
  }
  return {factor.first_row, factor.rows, factor.first_col, factor.cols, factor.transposed};
}

bool same_window(const model::ProductFactor& a, const model::ProductFactor& b) {
  return a.matrix == b.matrix && a.first_row == b.first_row && a.rows == b.rows &&
         a.first_col == b.first_col && a.cols == b.cols && a.transposed == b.transposed &&
         a.col_step == b.col_step;
}

/// Places decoded `values` (rows x cols, at (row, col) of the window) in `out`.
void place(const std::vector<float>& values, std::int64_t stride, std::int64_t skip,
           std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
           bool transposed, cpu::Factor& out) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* const from = values.data() + i * stride + skip;
    for (std::int64_t j = 0; j < cols; ++j) {
      const std::int64_t at =
          transposed ? (col + j) * out.cols + row + i : (row + i) * out.cols + col + j;
      out.values[static_cast<std::size_t>(at)] = from[j];
    }
  }
}

std::uint64_t elements(const model::ProductFactor& factor) {
  return static_cast<std::uint64_t>(factor.rows) * static_cast<std::uint64_t>(factor.cols);
}

/// What a slab of a factor takes: decoded, and encoded beside it in at most as many bytes again.
std::uint64_t slab_bytes(const model::ProductFactor& factor) {
  const StoredWindow window = stored_window(factor);
  const auto granularity =
      static_cast<std::uint64_t>(decode::column_granularity(factor.matrix->encoding));
  const auto columns = static_cast<std::uint64_t>(window.cols) + 2 * granularity;
  const std::uint64_t values =
      std::max({static_cast<std::uint64_t>(kFactorSlab), columns,
                static_cast<std::uint64_t>(factor.matrix->stored_rows()) * 2 * granularity});
  return 4 * sizeof(float) * values;
}

}  // namespace

cpu::Factor FactorReader::read_steps(const model::ProductFactor& factor) {
  const model::MatrixRecord& matrix = *factor.matrix;
  expects(!matrix.transposed && factor.cols > 0 &&
              factor.first_col + (factor.cols - 1) * factor.col_step < matrix.cols,
          "stepped columns of a matrix as stored");
  if (shared_ != factor.matrix) {
    shared_.reset();
    const auto input = make_streamed_input(watch_, matrix);
    shared_values_.resize(static_cast<std::size_t>(matrix.rows * matrix.cols));
    const std::int64_t step = std::max<std::int64_t>(1, kFactorSlab / matrix.cols);
    for (std::int64_t row = 0; row < matrix.rows; row += step) {
      const std::int64_t count = std::min(step, matrix.rows - row);
      decode::decode_matrix(input->row_slab(row, count), shared_values_.data() + row * matrix.cols,
                            matrix.cols);
    }
    shared_ = factor.matrix;
  }
  cpu::Factor out{factor.left(), factor.right(), {}};
  out.values.resize(static_cast<std::size_t>(elements(factor)));
  for (std::int64_t i = 0; i < factor.rows; ++i) {
    const float* const from =
        shared_values_.data() + (factor.first_row + i) * matrix.cols + factor.first_col;
    for (std::int64_t j = 0; j < factor.cols; ++j) {
      const std::int64_t at = factor.transposed ? j * out.cols + i : i * out.cols + j;
      out.values[static_cast<std::size_t>(at)] = from[j * factor.col_step];
    }
  }
  return out;
}

cpu::Factor FactorReader::read(const model::ProductFactor& factor) {
  if (factor.col_step > 1) {
    return read_steps(factor);
  }
  const model::MatrixRecord& matrix = *factor.matrix;
  const StoredWindow window = stored_window(factor);
  cpu::Factor out{factor.left(), factor.right(), {}};
  out.values.resize(static_cast<std::size_t>(elements(factor)));
  const auto input = make_streamed_input(watch_, matrix);
  std::vector<float> values;
  if (window.cols == matrix.stored_cols()) {
    const std::int64_t step = std::max<std::int64_t>(1, kFactorSlab / window.cols);
    for (std::int64_t row = 0; row < window.rows; row += step) {
      const std::int64_t count = std::min(step, window.rows - row);
      values.resize(static_cast<std::size_t>(count * window.cols));
      decode::decode_matrix(input->row_slab(window.first_row + row, count), values.data(),
                            window.cols);
      place(values, window.cols, 0, row, count, 0, window.cols, window.transposed, out);
    }
    return out;
  }
  expects(window.rows == matrix.stored_rows(), "a factor of whole rows or whole columns");
  // Rows of codes are cut at blocks only: the window is widened to them.
  const std::int64_t unit = decode::column_granularity(matrix.encoding);
  const std::int64_t begin = window.first_col / unit * unit;
  const std::int64_t end =
      std::min(matrix.stored_cols(), ceil_divide(window.first_col + window.cols, unit) * unit);
  const std::int64_t step = std::max<std::int64_t>(unit, kFactorSlab / window.rows / unit * unit);
  for (std::int64_t first = begin; first < end; first += step) {
    const std::int64_t count = std::min(step, end - first);
    values.resize(static_cast<std::size_t>(window.rows * count));
    decode::decode_matrix(input->column_slab(first, count), values.data(), count);
    const std::int64_t from = std::max(first, window.first_col);
    const std::int64_t to = std::min(first + count, window.first_col + window.cols);
    place(values, count, from - first, 0, window.rows, from - window.first_col, to - from,
          window.transposed, out);
  }
  return out;
}

std::uint64_t product_bytes(const model::MatrixRecord& row) {
  std::uint64_t all = 0;
  std::uint64_t most = 0;
  std::uint64_t slab = 0;
  std::uint64_t kept = 0;
  for (const model::ProductFactor& factor : row.product->factors) {
    all += elements(factor);
    most = std::max(most, elements(factor));
    std::uint64_t companions = 0;
    for (const model::CompanionPart& companion : factor.matrix->companions) {
      companions += companion.part.bytes;
    }
    slab = std::max(slab, slab_bytes(factor) + companions);
    if (factor.col_step > 1) {  // its whole matrix is kept
      kept += sizeof(float) * static_cast<std::uint64_t>(factor.matrix->rows) *
              static_cast<std::uint64_t>(factor.matrix->cols);
    }
  }
  // All factors, the one at work thrice (as read, transposed, reduced), and the core.
  const auto rank = static_cast<std::uint64_t>(row.product->rank());
  return sizeof(double) * (all + 3 * most + 4 * rank * rank + 128 * rank) + slab + kept;
}

std::uint64_t product_read_bytes(const model::MatrixRecord& row) {
  std::uint64_t bytes = 0;
  for (const model::ProductFactor& factor : row.product->factors) {
    const double share =
        static_cast<double>(elements(factor)) /
        (static_cast<double>(factor.matrix->rows) * static_cast<double>(factor.matrix->cols));
    bytes += static_cast<std::uint64_t>(share * static_cast<double>(factor.matrix->codes.bytes) /
                                        static_cast<double>(factor.shared_by));
  }
  return bytes;
}

double product_cost(const model::MatrixRecord& row) {
  const auto rank = static_cast<double>(row.product->rank());
  double cost = 8.0 * rank * rank * rank;
  for (const model::ProductFactor& factor : row.product->factors) {
    const auto least = static_cast<double>(std::min(factor.rows, factor.cols));
    cost +=
        2.0 * static_cast<double>(elements(factor)) * least / static_cast<double>(factor.shared_by);
  }
  return cost;
}

double product_cost(std::int64_t rows, std::int64_t rank, std::int64_t cols) {
  const auto r = static_cast<double>(rank);
  return 8.0 * r * r * r + 2.0 * r * r * static_cast<double>(rows + cols);
}

const cpu::Factor& ProductMeasurer::outer(Kept& kept, const model::ProductFactor& factor, bool left,
                                          const std::stop_token& stop) {
  if (!same_window(kept.source, factor)) {
    kept.source.matrix = nullptr;
    kept.reduced = {};
    cpu::Factor read = reader_.read(factor);
    kept.reduced =
        left ? cpu::reduced_left(std::move(read), stop) : cpu::reduced_right(std::move(read), stop);
    kept.source = factor;
  }
  return kept.reduced;
}

MatrixReport ProductMeasurer::measure(const model::MatrixRecord& row, const std::stop_token& stop) {
  expects(row.product != nullptr && row.product->factors.size() >= 2, "a product of factors");
  const std::vector<model::ProductFactor>& factors = row.product->factors;
  std::vector<cpu::Factor> inner;
  for (std::size_t i = 1; i + 1 < factors.size(); ++i) {
    inner.push_back(reader_.read(factors[i]));
  }
  std::vector<const cpu::Factor*> chain = {&outer(left_, factors.front(), true, stop)};
  for (const cpu::Factor& factor : inner) {
    chain.push_back(&factor);
  }
  chain.push_back(&outer(right_, factors.back(), false, stop));
  watch_.require_unchanged();
  return cpu::product_spectrum(chain, row.product->scale, stop);
}

}  // namespace vindex::engine
