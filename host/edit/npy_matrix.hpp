// Owns arrays that users give: directions, keys, values, covariances, probes.
#pragma once

#include <vindex/edit/low_rank_edit.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::edit {

/// The numbers of a .npy of one or two dimensions; one dimension is a column. `max_bytes` bounds
/// what is read. Errors: those of read_npy_header() and read_npy_floats(); FormatError E-EDIT-SHAPE
/// for other ranks and empty arrays, ConfigurationError E-BUDGET (78) for what does not fit.
Matrix read_npy_matrix(const std::string& path, std::uint64_t max_bytes);

/// The numbers of a vector: one dimension, or 1 x n, or n x 1. Errors: those of read_npy_matrix();
/// FormatError E-EDIT-SHAPE for a matrix.
std::vector<double> read_npy_vector(const std::string& path, std::uint64_t max_bytes);

}  // namespace vindex::edit
