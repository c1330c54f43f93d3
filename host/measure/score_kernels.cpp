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

/// Adds the products of R rows with Q queries over `length` columns.
template <int R, int Q>
VINDEX_KERNEL void tile(const float* rows, std::int64_t row_stride, const float* queries,
                        std::int64_t query_stride, std::int64_t length, double* scores,
                        std::int64_t score_stride) {
  Lanes sums[R][Q] = {};
  for (std::int64_t i = 0; i < length; i += kScoreLanes) {
    Lanes row[R];
    for (int r = 0; r < R; ++r) {
      load(rows + r * row_stride + i, row[r]);
    }
    for (int q = 0; q < Q; ++q) {
      Lanes query;
      load(queries + q * query_stride + i, query);
      for (int r = 0; r < R; ++r) {
        sums[r][q] += row[r] * query;
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int q = 0; q < Q; ++q) {
      scores[r * score_stride + q] += lane_sum(sums[r][q]);
    }
  }
}

/// The same of rows with themselves.
template <int R>
VINDEX_KERNEL void square_tile(const float* rows, std::int64_t row_stride, std::int64_t length,
                               double* squares) {
  Lanes sums[R] = {};
  for (std::int64_t i = 0; i < length; i += kScoreLanes) {
    for (int r = 0; r < R; ++r) {
      Lanes row;
      load(rows + r * row_stride + i, row);
      sums[r] += row * row;
    }
  }
  for (int r = 0; r < R; ++r) {
    squares[r] += lane_sum(sums[r]);
  }
}

/// R rows against every query, over one chunk of columns.
template <int R>
VINDEX_KERNEL void chunk_of_rows(const RowScores& work, std::int64_t row, std::int64_t first,
                                 std::int64_t length) {
  const float* rows = work.rows + row * work.row_stride + first;
  square_tile<R>(rows, work.row_stride, length, work.squares + row);
  std::int64_t query = 0;
  for (; query + 4 <= work.query_count; query += 4) {
    tile<R, 4>(rows, work.row_stride, work.queries + query * work.query_stride + first,
               work.query_stride, length, work.scores + row * work.query_count + query,
               work.query_count);
  }
  for (; query < work.query_count; ++query) {
    tile<R, 1>(rows, work.row_stride, work.queries + query * work.query_stride + first,
               work.query_stride, length, work.scores + row * work.query_count + query,
               work.query_count);
  }
}

VINDEX_KERNEL void score_row_block(const RowScores& work) {
  std::fill_n(work.scores, work.row_count * work.query_count, 0.0);
  std::fill_n(work.squares, work.row_count, 0.0);
  for (std::int64_t first = 0; first < work.length; first += kScoreChunk) {
    const std::int64_t length = std::min(kScoreChunk, work.length - first);
    std::int64_t row = 0;
    for (; row + 2 <= work.row_count; row += 2) {
      chunk_of_rows<2>(work, row, first, length);
    }
    if (row < work.row_count) {
      chunk_of_rows<1>(work, row, first, length);
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
