// Owns going through a stored matrix in slabs of whole rows as stored.
#pragma once

#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/run/matrix_loader.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace vindex::edit {

/// Stored rows of one slab, decoded.
struct Slab {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t cols = 0;
  decode::EncodedMatrix encoded;
  std::vector<float> values;  ///< count x cols
};

inline constexpr std::int64_t kSlabWeights = std::int64_t{1} << 20U;

/// Calls `use(slab)` for every slab in order, until one call returns false. Slabs begin where
/// blocks of rows that share a scale do. Errors: FormatError E-EDIT-VALUES where a weight is not
/// finite.
template <typename Use>
bool each_slab(run::SourceWatch& watch, const model::MatrixRecord& matrix, Use use) {
  const auto input = run::make_streamed_input(watch, matrix);
  const std::int64_t rows = matrix.stored_rows();
  Slab slab;
  slab.cols = matrix.stored_cols();
  const std::int64_t unit = std::max<std::int64_t>(1, matrix.encoding.block_rows);
  const std::int64_t step =
      std::max(unit, kSlabWeights / std::max<std::int64_t>(1, slab.cols) / unit * unit);
  for (slab.first = 0; slab.first < rows; slab.first += step) {
    slab.count = std::min(step, rows - slab.first);
    slab.encoded = input->row_slab(slab.first, slab.count);
    slab.values.resize(static_cast<std::size_t>(slab.count * slab.cols));
    decode::decode_matrix(slab.encoded, slab.values.data(), slab.cols);
    for (const float value : slab.values) {
      if (!std::isfinite(value)) {
        throw FormatError("E-EDIT-VALUES", model::matrix_name(matrix),
                          "holds weights that are not finite: it cannot be edited");
      }
    }
    if (!use(slab)) {
      return false;
    }
  }
  return true;
}

}  // namespace vindex::edit
