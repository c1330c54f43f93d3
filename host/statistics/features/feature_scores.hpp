// Owns scoring: the inner products of rows of a matrix (features) with a few vectors (queries), and
// the rows' norms, in one pass over the decoded weights. Products are float32 in eight lanes over
// 1024 columns (one after the other over 256 where features are stored columns), sums of these
// float64; the same bits for every processor, slab and thread. Single rows and columns, as queries
// or features, are read without more than the blocks they are in.
#pragma once

#include "backend/backend.hpp"
#include "core/line_vector.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Vectors that rows are multiplied with, each of `width` float32, padded for the kernels.
class QueryVectors {
 public:
  /// `values`: count x width, row-major, finite.
  QueryVectors(std::span<const float> values, std::int64_t count, std::int64_t width);
  std::int64_t count() const { return count_; }
  std::int64_t width() const { return width_; }
  std::int64_t stride() const { return stride_; }
  const float* row(std::int64_t query) const { return values_.data() + query * stride_; }
  double norm(std::int64_t query) const { return norms_[static_cast<std::size_t>(query)]; }
  std::uint64_t bytes() const { return sizeof(float) * values_.size(); }

 private:
  std::int64_t count_, width_, stride_;
  LineVector<float> values_;
  std::vector<double> norms_;
};

/// Logical rows first, first + step, ... of a matrix.
struct ScoredRows {
  std::int64_t first = 0, step = 1, count = 0;
};

/// Scores of features first, first + 1, ...: `count` of them.
struct ScoredSlab {
  std::int64_t first = 0, count = 0;
  std::int64_t query_count = 0;
  const double* scores = nullptr;   ///< count x query_count, row-major
  const double* squares = nullptr;  ///< count: norm of the row, squared; not finite where a weight
                                    ///< is not, or (scores too) where float64 does not hold it
};
using SeeScores = std::function<void(const ScoredSlab&)>;

/// Calls `see` for every feature of `rows` of `matrix` once, slab by slab, ascending. The matrix is
/// read in its stored order by rows or, where it is stored in x out, by blocks of columns. Errors:
/// expects() where its logical columns are not the queries' width; those of its slab functions.
void score_rows(MatrixInput& matrix, const ScoredRows& rows, const QueryVectors& queries,
                const SeeScores& see);

/// Memory that score_rows() takes beside the encoded bytes it is given, and the encoded bytes that
/// it asks for at a time of a matrix that is not in memory.
struct ScoreWorkspace {
  std::uint64_t decoded = 0, encoded = 0;
};
ScoreWorkspace score_workspace(const decode::Encoding& encoding, std::int64_t stored_rows,
                               std::int64_t stored_cols, bool transposed, std::int64_t query_count);

/// Row `row` (column `col`) of the logical matrix (out x in), whichever way it is stored. Errors:
/// expects() outside the matrix; those of its slab functions.
std::vector<float> logical_row(MatrixInput& matrix, std::int64_t row);
std::vector<float> logical_column(MatrixInput& matrix, std::int64_t col);

}  // namespace vindex::statistics
