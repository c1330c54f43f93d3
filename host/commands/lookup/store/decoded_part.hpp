// Owns decoding rows or columns of a logical matrix (out x in), whichever way it is stored.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <vector>

namespace vindex::commands {

/// Logical rows first, first + step, ... of `matrix`: count x its logical columns, row-major.
/// Errors: those of its slab functions.
std::vector<float> decoded_rows(MatrixInput& matrix, std::int64_t first, std::int64_t step,
                                std::int64_t count);
/// Logical columns first to first + count - 1, each as a row: count x its logical rows.
std::vector<float> decoded_columns(MatrixInput& matrix, std::int64_t first, std::int64_t count);

}  // namespace vindex::commands
