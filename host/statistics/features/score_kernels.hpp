// Owns the kernels of feature_scores: sums over at most 1024 products, in eight lanes, so that
// float32 rounding stays below 1e-6 of the norms, in an order that no vector width changes. Squares
// of weights are added to theirs by one rounding.
#pragma once
#include "decode/simd_level.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace vindex::statistics {

inline constexpr std::int64_t kScoreLanes = 8;
inline constexpr std::int64_t kScoreChunk = 1024;  ///< columns whose products are summed in float32

/// How the rows of RowScores lie in memory: as floats, or as they are stored, converted on the way
/// to the sums, which is faster than decoding them into memory first. Bits are those of the decoded
/// floats.
enum class ScoredType : std::uint8_t { kF32, kBF16, kF16, kCount };

/// A stretch of columns of rows (`row_stride_bytes` apart, `length` weights used, at any alignment)
/// against that of one query or more (padded with zeros); `length` is a multiple of kScoreLanes.
/// Adds to what is there: where rows come in several stretches, all but the last are multiples of
/// kScoreChunk, so that no bit depends on it.
struct RowScores {
  const std::byte* rows = nullptr;
  std::int64_t row_count = 0, row_stride_bytes = 0, length = 0;
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
  /// One for every ScoredType.
  std::array<void (*)(const RowScores&), static_cast<std::size_t>(ScoredType::kCount)> rows;
  void (*columns)(const ColumnScores&) = nullptr;
};
const ScoreKernels& score_kernels();
/// Those of one level; all give the same bits. Errors: expects() where has_score_kernels() is
/// false.
const ScoreKernels& score_kernels_at(decode::SimdLevel level);
bool has_score_kernels(decode::SimdLevel level);

}  // namespace vindex::statistics
