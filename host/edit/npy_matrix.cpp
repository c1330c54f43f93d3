// Owns reading a .npy file as a matrix or vector of doubles.
#include "npy_matrix.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <span>

namespace vindex::edit {

NpyMatrix::NpyMatrix(const std::string& path)
    : source_(shard::open_file_source(path)), header_(shard::read_npy_header(*source_)) {
  const std::vector<std::int64_t>& shape = header_.shape;
  if (shape.empty() || shape.size() > 2 || header_.bytes == 0) {
    throw FormatError("E-EDIT-SHAPE", name(),
                      fmt::format("has {} dimensions of {} bytes; a vector or a matrix is expected",
                                  shape.size(), header_.bytes));
  }
  shard::require_npy_numbers(*source_, header_);
  rows_ = shape[0];
  cols_ = shape.size() == 2 ? shape[1] : 1;
}

std::int64_t NpyMatrix::length() const {
  if (rows_ != 1 && cols_ != 1) {
    throw FormatError(
        "E-EDIT-SHAPE", name(),
        fmt::format("is {} x {}; a vector is expected: one dimension, or 1 x n, or n x "
                    "1",
                    rows_, cols_));
  }
  return rows_ * cols_;
}

void NpyMatrix::require_fits(std::uint64_t max_bytes) const {
  const auto count = static_cast<std::uint64_t>(rows_) * static_cast<std::uint64_t>(cols_);
  if (count > max_bytes / 16) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("{}: {} x {} numbers take {} MiB here; raise --ram-budget", name(),
                                rows_, cols_, count / (1U << 16U)));
  }
}

Matrix NpyMatrix::read() const {
  Matrix matrix{rows_, cols_, {}};
  if (header_.type == decode::ElementType::kF64) {
    matrix.values.resize(static_cast<std::size_t>(rows_ * cols_));
    source_->read(header_.offset, std::as_writable_bytes(std::span(matrix.values)));
    return matrix;
  }
  const std::vector<float> values = shard::read_npy_floats(*source_, header_);
  matrix.values.assign(values.begin(), values.end());
  return matrix;
}

}  // namespace vindex::edit
