// Owns arrays that users give: directions, keys, values, covariances, probes.
#pragma once

#include <vindex/edit/low_rank_edit.hpp>
#include <vindex/shard/npy.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace vindex::edit {

/// A .npy of one or two dimensions of which no more than the header is read; one dimension is a
/// column.
class NpyMatrix {
 public:
  /// Errors: those of read_npy_header(); FormatError E-EDIT-SHAPE for other ranks and empty arrays,
  /// E-NPY-DTYPE for booleans.
  explicit NpyMatrix(const std::string& path);

  const std::string& name() const { return source_->name(); }
  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  /// How many numbers a vector has: one dimension, or 1 x n, or n x 1. Errors: FormatError
  /// E-EDIT-SHAPE for a matrix.
  std::int64_t length() const;

  /// Errors: ConfigurationError E-BUDGET (78) where its numbers take more than `max_bytes`.
  void require_fits(std::uint64_t max_bytes) const;

  /// The numbers. Errors: those of ByteSource::read().
  Matrix read() const;

 private:
  std::unique_ptr<shard::ByteSource> source_;
  shard::NpyHeader header_;
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
};

}  // namespace vindex::edit
