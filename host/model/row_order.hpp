// Owns the order of rows in the results: layer, block, role, expert, slice, name.
#pragma once

#include <vindex/model/model_index.hpp>

#include <cstdint>
#include <vector>

namespace vindex::model {

/// Positions of `rows` in the results' order.
std::vector<std::uint32_t> row_order(const std::vector<const MatrixRecord*>& rows);

using MatrixIterator = std::vector<MatrixRecord>::iterator;

/// Puts rows into the results' order.
void sort_matrices(MatrixIterator begin, MatrixIterator end);

}  // namespace vindex::model
