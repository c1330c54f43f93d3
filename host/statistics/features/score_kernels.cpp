// Owns the loops over eight lanes for weights stored as F32, BF16 and F16, and their variants for
// vector instructions, which give the same bits.
#include "score_kernels.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <immintrin.h>  // declares the builtins of all instructions

namespace vindex::statistics {
namespace {

#define VINDEX_KERNEL [[gnu::always_inline]] inline

using Lanes [[gnu::vector_size(32)]] = float;
static_assert(sizeof(Lanes) == sizeof(float) * kScoreLanes);

VINDEX_KERNEL void load(const float* from, Lanes& lanes) {
  std::memcpy(&lanes, from, sizeof lanes);
}

/// Eight weights as they are stored, and what they are.
struct F32Weights {
  static constexpr std::int64_t kBytes = 4;
  VINDEX_KERNEL static void load(const std::byte* from, Lanes& lanes) {
    std::memcpy(&lanes, from, sizeof lanes);
  }
};

using Words [[gnu::vector_size(32)]] = std::uint32_t;

/// Eight numbers of 16 bits, widened: one instruction of AVX2 for it, which the compiler does not
/// find for __builtin_convertvector.
VINDEX_KERNEL void load_words(const std::byte* from, Words& words) {
  std::uint16_t codes[kScoreLanes];
  std::memcpy(&codes, from, sizeof codes);
  words = Words{codes[0], codes[1], codes[2], codes[3], codes[4], codes[5], codes[6], codes[7]};
}

struct BF16Weights {
  static constexpr std::int64_t kBytes = 2;
  VINDEX_KERNEL static void load(const std::byte* from, Lanes& lanes) {
    Words words;
    load_words(from, words);
    words <<= 16U;
    std::memcpy(&lanes, &words, sizeof lanes);
  }
};

struct F16Weights {
  static constexpr std::int64_t kBytes = 2;
  /// The exponent is moved by an exact product, subnormal codes with it; the largest exponent,
  /// infinity or NaN, is filled up.
  VINDEX_KERNEL static void load(const std::byte* from, Lanes& lanes) {
    Words words;
    load_words(from, words);
    const Words magnitude = words & 0x7FFFU;
    Words bits = magnitude << 13U;
    Lanes value;
    std::memcpy(&value, &bits, sizeof value);
    value *= 0x1p112F;
    std::memcpy(&bits, &value, sizeof value);
    using Numbers [[gnu::vector_size(32)]] = std::int32_t;
    const auto is_top = reinterpret_cast<Words>(reinterpret_cast<Numbers>(magnitude) >= 0x7C00);
    bits |= (is_top & 0x7F800000U) | (words & 0x8000U) << 16U;
    std::memcpy(&lanes, &bits, sizeof lanes);
  }
};

/// sums += row * row, rounded once: of processors that do it in one instruction. (Products with
/// queries gain nothing by it: they have as many multiplications as additions to begin with, and
/// units for both.)
struct FusedSquares {
  VINDEX_KERNEL static void add(const Lanes& row, Lanes& sums) {
#ifdef __clang__  // lets a builtin stand only in functions that have its instructions
    const Lanes x = row, z = sums;
    sums = Lanes{__builtin_fmaf(x[0], x[0], z[0]), __builtin_fmaf(x[1], x[1], z[1]),
                 __builtin_fmaf(x[2], x[2], z[2]), __builtin_fmaf(x[3], x[3], z[3]),
                 __builtin_fmaf(x[4], x[4], z[4]), __builtin_fmaf(x[5], x[5], z[5]),
                 __builtin_fmaf(x[6], x[6], z[6]), __builtin_fmaf(x[7], x[7], z[7])};
#else  // finds the instruction too, and keeps sums in memory beside it
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // it is inlined, so nothing is returned
    sums = __builtin_ia32_vfmaddps256(row, row, sums);
#pragma GCC diagnostic pop
#endif
  }
};

/// The same of others, in float64: squares are exact there, and where the sum is not, its last bit
/// is made odd, towards what was lost, so that rounding it to float32 rounds once (Boldo and
/// Melquiond 2008).
struct OddSquares {
  VINDEX_KERNEL static void add(const Lanes& row, Lanes& sums) {
    using Doubles [[gnu::vector_size(64)]] = double;
    using Bits [[gnu::vector_size(64)]] = std::int64_t;
    const Doubles wide = __builtin_convertvector(row, Doubles);
    const Doubles square = wide * wide;
    const Doubles before = __builtin_convertvector(sums, Doubles);
    const Doubles sum = square + before;
    const Doubles added = sum - square;
    const Doubles lost = (square - (sum - added)) + (before - added);
    const auto bits = reinterpret_cast<Bits>(sum);
    // No sum is negative: one that was rounded down grows by its last bit, another shrinks.
    const Bits is_rounded = ((lost > 0.0) | (lost < 0.0)) & -(~bits & 1);
    const Bits odd = bits + (is_rounded & (1 | ~(lost > 0.0)));
    sums = __builtin_convertvector(reinterpret_cast<Doubles>(odd), Lanes);
  }
};

VINDEX_KERNEL void store(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

VINDEX_KERNEL double lane_sum(const Lanes& lanes) {
  const auto at = [&](int i) __attribute__((always_inline)) {
    return static_cast<double>(lanes[i]);
  };
  return ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
}

/// Adds the products of R rows with Q queries over `length` columns, and where kSquares the sums of
/// squares of the rows, which are so loaded once for both.
template <typename Weights, typename Squares, int R, int Q, bool kSquares>
VINDEX_KERNEL void tile(const std::byte* rows, std::int64_t row_stride_bytes, const float* queries,
                        std::int64_t query_stride, std::int64_t length, double* scores,
                        std::int64_t score_stride, double* squares) {
  // Unrolled whole, or the sums would live in memory.
  Lanes sums[R][Q] = {};
  Lanes square_sums[R] = {};
  for (std::int64_t i = 0; i < length; i += kScoreLanes) {
    Lanes row[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      Weights::load(rows + r * row_stride_bytes + i * Weights::kBytes, row[r]);
      if constexpr (kSquares) {
        Squares::add(row[r], square_sums[r]);
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
template <typename Weights, typename Squares, int R>
VINDEX_KERNEL void chunk_of_rows(const RowScores& work, std::int64_t row, std::int64_t first,
                                 std::int64_t length) {
  const std::byte* rows = work.rows + row * work.row_stride_bytes + first * Weights::kBytes;
  double* const squares = work.squares + row;
  const auto against = [&]<int Q, bool kSquares>(std::int64_t query)
      __attribute__((always_inline)) {
    tile<Weights, Squares, R, Q, kSquares>(
        rows, work.row_stride_bytes, work.queries + query * work.query_stride + first,
        work.query_stride, length, work.scores + row * work.query_count + query, work.query_count,
        squares);
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
template <typename Weights, typename Squares, int R>
VINDEX_KERNEL void score_chunk(const RowScores& work, std::int64_t first, std::int64_t length) {
  std::int64_t row = 0;
  for (; row + R <= work.row_count; row += R) {
    chunk_of_rows<Weights, Squares, R>(work, row, first, length);
  }
  for (; row < work.row_count; ++row) {
    chunk_of_rows<Weights, Squares, 1>(work, row, first, length);
  }
}

template <typename Weights, typename Squares>
VINDEX_KERNEL void score_row_block(const RowScores& work) {
  for (std::int64_t first = 0; first < work.length; first += kScoreChunk) {
    const std::int64_t length = std::min(kScoreChunk, work.length - first);
    if (work.query_count < 4) {
      score_chunk<Weights, Squares, 4>(work, first, length);
    } else {
      score_chunk<Weights, Squares, 2>(work, first, length);
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

template <typename Weights>
void rows_baseline(const RowScores& work) {
  score_row_block<Weights, OddSquares>(work);
}
void columns_baseline(const ColumnScores& work) { score_column_block(work); }
template <typename Weights>
[[gnu::target("avx2,fma")]] void rows_avx2(const RowScores& work) {
  score_row_block<Weights, FusedSquares>(work);
}
[[gnu::target("avx2")]] void columns_avx2(const ColumnScores& work) { score_column_block(work); }

}  // namespace

bool has_score_kernels(decode::SimdLevel level) {
  return level == decode::SimdLevel::kBaseline ||
         (level == decode::SimdLevel::kAvx2 && decode::is_supported(level) &&
          __builtin_cpu_supports("fma") != 0);
}

const ScoreKernels& score_kernels_at(decode::SimdLevel level) {
  static constexpr ScoreKernels kBaseline = {
      {rows_baseline<F32Weights>, rows_baseline<BF16Weights>, rows_baseline<F16Weights>},
      columns_baseline};
  // Eight lanes are one register of AVX2; the wider ones of AVX-512 would give other bits.
  static constexpr ScoreKernels kAvx2 = {
      {rows_avx2<F32Weights>, rows_avx2<BF16Weights>, rows_avx2<F16Weights>}, columns_avx2};
  expects(has_score_kernels(level), "score_kernels_at: a level this processor has kernels of");
  return level == decode::SimdLevel::kBaseline ? kBaseline : kAvx2;
}

const ScoreKernels& score_kernels() {
  static const ScoreKernels& kBest =
      score_kernels_at(has_score_kernels(decode::SimdLevel::kAvx2) ? decode::SimdLevel::kAvx2
                                                                   : decode::SimdLevel::kBaseline);
  return kBest;
}

}  // namespace vindex::statistics
