// Owns reading a .npy file as a matrix or vector of doubles.
#include "npy_matrix.hpp"

#include <vindex/core/error.hpp>
#include <vindex/shard/npy.hpp>

#include <fmt/format.h>

#include <span>
#include <utility>

namespace vindex::edit {

Matrix read_npy_matrix(const std::string& path, std::uint64_t max_bytes) {
  const auto source = shard::open_file_source(path);
  const shard::NpyHeader header = shard::read_npy_header(*source);
  if (header.shape.empty() || header.shape.size() > 2 || header.bytes == 0) {
    throw FormatError("E-EDIT-SHAPE", source->name(),
                      fmt::format("has {} dimensions of {} bytes; a vector or a matrix is wanted",
                                  header.shape.size(), header.bytes));
  }
  Matrix matrix;
  matrix.rows = header.shape[0];
  matrix.cols = header.shape.size() == 2 ? header.shape[1] : 1;
  const auto count =
      static_cast<std::uint64_t>(matrix.rows) * static_cast<std::uint64_t>(matrix.cols);
  if (count > max_bytes / 16) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("{}: {} x {} numbers take {} MiB here; raise --ram-budget",
                                source->name(), matrix.rows, matrix.cols, count / (1U << 16U)));
  }
  if (header.type == decode::ElementType::kF64) {
    matrix.values.resize(count);
    source->read(header.offset, std::as_writable_bytes(std::span(matrix.values)));
    return matrix;
  }
  const std::vector<float> values = shard::read_npy_floats(*source, header);
  matrix.values.assign(values.begin(), values.end());
  return matrix;
}

std::vector<double> read_npy_vector(const std::string& path, std::uint64_t max_bytes) {
  Matrix matrix = read_npy_matrix(path, max_bytes);
  if (matrix.rows != 1 && matrix.cols != 1) {
    throw FormatError("E-EDIT-SHAPE", printable(path),
                      fmt::format("is {} x {}; a vector is wanted: one dimension, or 1 x n, or n x "
                                  "1",
                                  matrix.rows, matrix.cols));
  }
  return std::move(matrix.values);
}

}  // namespace vindex::edit
