#include "score_kernels.hpp"

#include "decode/decode_matrix.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace vindex::measure {
namespace {

#define VINDEX_KERNEL [[gnu::always_inline]] inline

using Lanes [[gnu::vector_size(32)]] = float;
static_assert(sizeof(Lanes) == sizeof(float) * kScoreLanes);

VINDEX_KERNEL void load(const float* from, Lanes& lanes) {
  std::memcpy(&lanes, from, sizeof lanes);
}
VINDEX_KERNEL void store(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

VINDEX_KERNEL double lane_sum(const Lanes& lanes) {
  const auto at = [&](int i) __attribute__((always_inline)) {
    return static_cast<double>(lanes[i]);
  };
  return ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
}

/// Adds the products of R rows with Q queries over `length` columns, and where kSquares the sums of
/// squares of the rows, which are so loaded once for both.
template <int R, int Q, bool kSquares>
VINDEX_KERNEL void tile(const float* rows, std::int64_t row_stride, const float* queries,
                        std::int64_t query_stride, std::int64_t length, double* scores,
                        std::int64_t score_stride, double* squares) {
  // Unrolled whole, or the sums would live in memory.
  Lanes sums[R][Q] = {};
  Lanes square_sums[R] = {};
  for (std::int64_t i = 0; i < length; i += kScoreLanes) {
    Lanes row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      load(rows + r * row_stride + i, row[r]);
      if constexpr (kSquares) {
        square_sums[r] += row[r] * row[r];
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      Lanes query;
      load(queries + q * query_stride + i, query);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        sums[r][q] += row[r] * query;
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      scores[r * score_stride + q] += lane_sum(sums[r][q]);
    }
    if constexpr (kSquares) {
      squares[r] += lane_sum(square_sums[r]);
    }
  }
}

/// R rows against every query, over one chunk of columns.
template <int R>
VINDEX_KERNEL void chunk_of_rows(const RowScores& work, std::int64_t row, std::int64_t first,
                                 std::int64_t length) {
  const float* rows = work.rows + row * work.row_stride + first;
  double* const squares = work.squares + row;
  const auto against = [&]<int Q, bool kSquares>(std::int64_t query)
      __attribute__((always_inline)) {
    tile<R, Q, kSquares>(rows, work.row_stride, work.queries + query * work.query_stride + first,
                         work.query_stride, length, work.scores + row * work.query_count + query,
                         work.query_count, squares);
  };
  std::int64_t query = 0;
  if (work.query_count < 4) {
    against.template operator()<1, true>(query++);
  } else {
    against.template operator()<4, true>(query);
    for (query = 4; query + 4 <= work.query_count; query += 4) {
      against.template operator()<4, false>(query);
    }
  }
  for (; query < work.query_count; ++query) {
    against.template operator()<1, false>(query);
  }
}

/// Rows are taken R at a time: as many sums as hide the latency of an addition, and no more than
/// there are registers for.
template <int R>
VINDEX_KERNEL void score_chunk(const RowScores& work, std::int64_t first, std::int64_t length) {
  std::int64_t row = 0;
  for (; row + R <= work.row_count; row += R) {
    chunk_of_rows<R>(work, row, first, length);
  }
  for (; row < work.row_count; ++row) {
    chunk_of_rows<1>(work, row, first, length);
  }
}

VINDEX_KERNEL void score_row_block(const RowScores& work) {
  for (std::int64_t first = 0; first < work.length; first += kScoreChunk) {
    const std::int64_t length = std::min(kScoreChunk, work.length - first);
    if (work.query_count < 4) {
      score_chunk<4>(work, first, length);
    } else {
      score_chunk<2>(work, first, length);
    }
  }
}

/// Adds R rows, each times its component of the query, to the scores of all columns.
template <int R>
VINDEX_KERNEL void add_rows(const float* rows, std::int64_t row_stride, const float* query,
                            std::int64_t col_count, float* scores) {
  for (std::int64_t col = 0; col < col_count; col += kScoreLanes) {
    Lanes sum;
    load(scores + col, sum);
    for (int r = 0; r < R; ++r) {
      Lanes row;
      load(rows + r * row_stride + col, row);
      sum += row * query[r];
    }
    store(sum, scores + col);
  }
}

template <int R>
VINDEX_KERNEL void add_squares(const float* rows, std::int64_t row_stride, std::int64_t col_count,
                               float* squares) {
  for (std::int64_t col = 0; col < col_count; col += kScoreLanes) {
    Lanes sum;
    load(squares + col, sum);
    for (int r = 0; r < R; ++r) {
      Lanes row;
      load(rows + r * row_stride + col, row);
      sum += row * row;
    }
    store(sum, squares + col);
  }
}

template <int R>
VINDEX_KERNEL void add_block(const ColumnScores& work, std::int64_t row) {
  const float* rows = work.rows + row * work.row_stride;
  add_squares<R>(rows, work.row_stride, work.col_count, work.squares);
  for (std::int64_t query = 0; query < work.query_count; ++query) {
    add_rows<R>(rows, work.row_stride, work.queries + query * work.query_stride + row,
                work.col_count, work.scores + query * work.col_count);
  }
}

VINDEX_KERNEL void score_column_block(const ColumnScores& work) {
  std::int64_t row = 0;
  for (; row + 8 <= work.row_count; row += 8) {
    add_block<8>(work, row);
  }
  for (; row < work.row_count; ++row) {
    add_block<1>(work, row);
  }
}

void rows_baseline(const RowScores& work) { score_row_block(work); }
void columns_baseline(const ColumnScores& work) { score_column_block(work); }
[[gnu::target("avx2")]] void rows_avx2(const RowScores& work) { score_row_block(work); }
[[gnu::target("avx2")]] void columns_avx2(const ColumnScores& work) { score_column_block(work); }

}  // namespace

const ScoreKernels& score_kernels() {
  static constexpr ScoreKernels kBaseline = {rows_baseline, columns_baseline};
  // Eight lanes are one register of AVX2; the wider ones of AVX-512 would give other bits.
  static constexpr ScoreKernels kAvx2 = {rows_avx2, columns_avx2};
  return decode::best_simd_level() == decode::SimdLevel::kBaseline ? kBaseline : kAvx2;
}

}  // namespace vindex::measure
