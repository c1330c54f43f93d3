// Owns one row or column of a matrix, decoded, without reading more than the blocks it is in.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <vector>

namespace vindex::measure {

/// Row `row` (column `col`) of the logical matrix (out x in), whichever way it is stored. Errors:
/// expects() outside the matrix; those of its slab functions.
std::vector<float> logical_row(MatrixInput& matrix, std::int64_t row);
std::vector<float> logical_column(MatrixInput& matrix, std::int64_t col);

}  // namespace vindex::measure
