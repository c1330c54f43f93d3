// Sums of products and of squares, beside plain loops in the order that the kernels promise, at
// every level of instructions.
#include "statistics/features/score_kernels.hpp"

#include "decode/decode_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace vindex::statistics::score_kernels_test {
namespace {

using decode::SimdLevel;

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> found;
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (has_score_kernels(level)) {
      found.push_back(level);
    }
  }
  return found;
}

using Row = std::vector<float>;

bool is_same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// By the order of the header: chunks, lanes; `add` adds a product.
template <typename Add>
double ordered_sum(const Row& a, const Row& b, Add add) {
  double all = 0.0;
  for (std::size_t first = 0; first < a.size(); first += kScoreChunk) {
    std::array<float, kScoreLanes> sums = {};
    for (std::size_t i = first; i < std::min(a.size(), first + kScoreChunk); ++i) {
      sums[i % kScoreLanes] = add(a[i], b[i], sums[i % kScoreLanes]);
    }
    const auto at = [&](std::size_t i) { return static_cast<double>(sums[i]); };
    all += ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
  }
  return all;
}
double ordered_products(const Row& a, const Row& b) {
  return ordered_sum(a, b, [](float x, float y, float sum) { return sum + x * y; });
}
double ordered_squares(const Row& a) {
  return ordered_sum(a, a, [](float x, float y, float sum) { return std::fma(x, y, sum); });
}

/// Rows against queries at `level`, from `codes` of `type`.
struct Found {
  std::vector<double> scores, squares;
};
Found found_at(SimdLevel level, ScoredType type, const std::vector<std::byte>& codes,
               std::int64_t rows, std::int64_t length, const std::vector<Row>& queries) {
  std::vector<float> values;
  for (const Row& query : queries) {
    values.insert(values.end(), query.begin(), query.end());
  }
  Found found;
  found.scores.resize(static_cast<std::size_t>(rows) * queries.size());
  found.squares.resize(static_cast<std::size_t>(rows));
  score_kernels_at(level).rows[static_cast<std::size_t>(type)](
      {.rows = codes.data(),
       .row_count = rows,
       .row_stride_bytes = static_cast<std::int64_t>(codes.size()) / rows,
       .length = length,
       .queries = values.data(),
       .query_count = std::ssize(queries),
       .query_stride = length,
       .scores = found.scores.data(),
       .squares = found.squares.data()});
  return found;
}

std::vector<std::byte> bytes_of(const std::vector<Row>& rows) {
  std::vector<std::byte> bytes;
  for (const Row& row : rows) {
    const auto* const from = reinterpret_cast<const std::byte*>(row.data());
    bytes.insert(bytes.end(), from, from + row.size() * sizeof(float));
  }
  return bytes;
}

/// Numbers of any size and sign whose sums round in every way: equal and opposite ones, half units
/// in the last place, subnormal ones.
std::vector<Row> hostile(std::size_t rows, std::size_t length, unsigned int seed, int exponents) {
  std::mt19937 engine(seed);
  std::vector<Row> all(rows, Row(length));
  for (Row& row : all) {
    for (float& value : row) {
      const auto drawn = static_cast<std::uint32_t>(engine());
      const std::uint32_t fraction = drawn & (engine() % 3U == 0 ? 0x7FF800U : 0x7FFFFFU);
      const auto exponent = static_cast<std::uint32_t>(
          127 - exponents / 2 + static_cast<int>(engine() % static_cast<unsigned>(exponents)));
      const std::uint32_t bits = (drawn & 0x80000000U) | exponent << 23U | fraction;
      std::memcpy(&value, &bits, sizeof value);
    }
  }
  return all;
}

TEST(ScoreKernels, AreTheSameBitsAtEveryLevel) {
  for (const int exponents : {2, 24, 60, 120, 240}) {
    for (const std::size_t length : {8U, 1024U, 1544U}) {
      for (const std::size_t query_count : {1U, 3U, 4U, 9U}) {
        const auto rows = hostile(7, length, static_cast<unsigned>(exponents), exponents);
        const auto queries = hostile(query_count, length, 77, exponents);
        for (const SimdLevel level : levels()) {
          const Found found = found_at(level, ScoredType::kF32, bytes_of(rows), std::ssize(rows),
                                       static_cast<std::int64_t>(length), queries);
          for (std::size_t r = 0; r < rows.size(); ++r) {
            EXPECT_EQ(found.squares[r], ordered_squares(rows[r]));
            for (std::size_t q = 0; q < query_count; ++q) {
              EXPECT_PRED2(is_same, found.scores[r * query_count + q],
                           ordered_products(rows[r], queries[q]))
                  << decode::simd_level_name(level) << ", " << exponents << " exponents";
            }
          }
        }
      }
    }
  }
}

/// A square that lies between two float32, and something too small for float64 that lies above it.
TEST(ScoreKernels, RoundSquaresOnce) {
  Row row(16, 0.0F);
  row[0] = 0x1p-30F;
  row[8] = 4097.0F;  // its square is 16785409
  for (const SimdLevel level : levels()) {
    const Found found = found_at(level, ScoredType::kF32, bytes_of({row}), 1, 16, {Row(16, 0.0F)});
    EXPECT_EQ(found.squares[0], 16785410.0) << decode::simd_level_name(level);
  }
}

TEST(ScoreKernels, KeepWhatIsNoNumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Row> rows = {Row{infinity, 1, 1, 1, 1, 1, 1, 1}, Row(8, 3e38F),
                                 Row{NAN, 1, 1, 1, 1, 1, 1, 1},
                                 Row{-infinity, 0, 0, 0, 0, 0, 0, 0}};
  const std::vector<Row> queries = {Row(8, 3e38F)};
  for (const SimdLevel level : levels()) {
    const Found found = found_at(level, ScoredType::kF32, bytes_of(rows), 4, 8, queries);
    EXPECT_EQ(found.scores[0], infinity);
    EXPECT_EQ(found.scores[1], infinity);
    EXPECT_TRUE(std::isnan(found.scores[2]));
    EXPECT_EQ(found.scores[3], -infinity);
    EXPECT_EQ(found.squares[3], infinity);
  }
}

/// Every code of two bytes: what a query of ones and zeros finds is the code's number.
TEST(ScoreKernels, ReadEveryCodeOfTwoBytes) {
  constexpr std::int64_t kCodes = 65536;
  std::vector<std::byte> codes(2 * kCodes * kScoreLanes);  // a row of eight for each, seven zeros
  for (std::int64_t i = 0; i < kCodes; ++i) {
    const auto code = static_cast<std::uint16_t>(i);
    std::memcpy(codes.data() + 2 * (i * kScoreLanes + i % kScoreLanes), &code, 2);
  }
  for (const auto& [type, stored] : {std::pair{ScoredType::kBF16, decode::ElementType::kBF16},
                                     {ScoredType::kF16, decode::ElementType::kF16}}) {
    std::vector<float> expected(kCodes);
    std::vector<std::uint16_t> all(kCodes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::uint16_t>(i);
    }
    decode::decode_row(decode::plain_encoding(stored), std::as_bytes(std::span(all)), expected);
    for (const SimdLevel level : levels()) {
      const Found found =
          found_at(level, type, codes, kCodes, kScoreLanes, {Row(kScoreLanes, 1.0F)});
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const auto score = static_cast<float>(found.scores[i]);
        EXPECT_TRUE(score == expected[i] || (std::isnan(score) && std::isnan(expected[i])))
            << i << ": " << score << ", not " << expected[i];
      }
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::score_kernels_test
