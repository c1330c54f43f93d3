// Owns the kernels of feature_scores: sums over at most 1024 products per lane, so that float32
// rounding stays below 1e-6 of the norms, in an order that no vector width changes.
#pragma once

#include <cstdint>

namespace vindex::measure {

inline constexpr std::int64_t kScoreLanes = 8;
inline constexpr std::int64_t kScoreChunk = 1024;  ///< columns whose products are summed in float32

/// A stretch of columns of rows (out of `stride` floats, `length` of them used) against that of one
/// query or more; both padded with zeros to whole lanes. Adds to what is there: where rows come in
/// several stretches, all but the last are multiples of kScoreChunk, so that no bit depends on it.
struct RowScores {
  const float* rows = nullptr;
  std::int64_t row_count = 0, row_stride = 0, length = 0;
  const float* queries = nullptr;
  std::int64_t query_count = 0, query_stride = 0;
  double* scores = nullptr;   ///< row_count x query_count
  double* squares = nullptr;  ///< row_count
};

/// Columns (of `row_count` rows of `stride` floats) against a stretch of the queries: adds to what
/// is there.
struct ColumnScores {
  const float* rows = nullptr;
  std::int64_t row_count = 0, row_stride = 0;
  std::int64_t col_count = 0;      ///< a multiple of kScoreLanes
  const float* queries = nullptr;  ///< at the component that belongs to the first row
  std::int64_t query_count = 0, query_stride = 0;
  float* scores = nullptr;   ///< query_count x col_count
  float* squares = nullptr;  ///< col_count
};

/// The best of these kernels that the processor has.
struct ScoreKernels {
  void (*rows)(const RowScores&) = nullptr;
  void (*columns)(const ColumnScores&) = nullptr;
};
const ScoreKernels& score_kernels();

}  // namespace vindex::measure
