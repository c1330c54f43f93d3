// Scores and norms beside sums in float64, for both ways of storing, every cut and hostile weights.
#include "statistics/features/feature_scores.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace vindex::statistics::feature_scores_test {
namespace {

using vindex::decode::ElementType;
using vindex::statistics::QueryVectors;
using vindex::statistics::ScoredRows;
using vindex::statistics::ScoredSlab;

std::vector<float> noise(std::size_t count, unsigned int seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(engine);
  }
  return values;
}

/// A float32 matrix in memory, as stored.
struct Stored {
  Stored(std::vector<float> values_of, std::int64_t rows, std::int64_t cols)
      : values(std::move(values_of)), encoding(vindex::decode::plain_encoding(ElementType::kF32)) {
    view.encoding = &encoding;
    view.rows = rows;
    view.cols = cols;
    view.codes = reinterpret_cast<const std::byte*>(values.data());
    view.row_stride_bytes = cols * 4;
  }
  std::unique_ptr<MatrixInput> input(bool transposed) const {
    return make_memory_input(view, transposed);
  }
  std::vector<float> values;
  vindex::decode::Encoding encoding;
  vindex::decode::EncodedMatrix view;
};

struct Scores {
  std::vector<double> scores, squares;
};

Scores scores_of(MatrixInput& input, const ScoredRows& rows, const QueryVectors& queries) {
  Scores all;
  std::int64_t next = 0;
  vindex::statistics::score_rows(input, rows, queries, [&](const ScoredSlab& slab) {
    EXPECT_EQ(slab.first, next);
    next += slab.count;
    all.scores.insert(all.scores.end(), slab.scores, slab.scores + slab.count * slab.query_count);
    all.squares.insert(all.squares.end(), slab.squares, slab.squares + slab.count);
  });
  EXPECT_EQ(next, rows.count);
  return all;
}

std::vector<float> turned(const std::vector<float>& values, std::int64_t rows, std::int64_t cols) {
  std::vector<float> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * cols + c)];
    }
  }
  return out;
}

TEST(FeatureScores, AgreeWithFloat64WhicheverWayTheMatrixIsStored) {
  for (const auto& [rows, cols, query_count] :
       std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>{
           {1, 1, 1}, {3, 7, 1}, {5, 8, 4}, {37, 1031, 5}, {700, 2065, 9}}) {
    const auto weights = noise(static_cast<std::size_t>(rows * cols), 1);
    const auto x = noise(static_cast<std::size_t>(query_count * cols), 2);
    const QueryVectors queries(x, query_count, cols);
    const Stored plain(weights, rows, cols);
    const Stored other(turned(weights, rows, cols), cols, rows);
    for (const ScoredRows range : {ScoredRows{0, 1, rows}, ScoredRows{0, 2, rows / 2},
                                   ScoredRows{1, 2, rows / 2}, ScoredRows{rows / 2, 1, rows / 3}}) {
      for (const bool transposed : {false, true}) {
        const auto input = (transposed ? other : plain).input(transposed);
        const Scores found = scores_of(*input, range, queries);
        for (std::int64_t f = 0; f < range.count; ++f) {
          const float* row = weights.data() + (range.first + f * range.step) * cols;
          double square = 0.0;
          for (std::int64_t i = 0; i < cols; ++i) {
            square += static_cast<double>(row[i]) * row[i];
          }
          EXPECT_NEAR(found.squares[static_cast<std::size_t>(f)], square, 1e-6 * square);
          for (std::int64_t q = 0; q < query_count; ++q) {
            double product = 0.0;
            for (std::int64_t i = 0; i < cols; ++i) {
              product += static_cast<double>(row[i]) * x[static_cast<std::size_t>(q * cols + i)];
            }
            EXPECT_NEAR(found.scores[static_cast<std::size_t>(f * query_count + q)], product,
                        1e-6 * std::sqrt(square) * queries.norm(q));
          }
        }
      }
    }
  }
}

TEST(FeatureScores, OfARowDoNotDependOnItsPlaceOrOnOtherQueries) {
  constexpr std::int64_t kRows = 61, kCols = 1500;
  const auto weights = noise(kRows * kCols, 3);
  const auto x = noise(6 * kCols, 4);
  const Stored all(weights, kRows, kCols);
  const auto input = all.input(false);
  const Scores together = scores_of(*input, {0, 1, kRows}, QueryVectors(x, 6, kCols));
  for (const std::int64_t row : {0, 17, 60}) {
    const std::vector<float> one(x.begin() + 5 * kCols, x.end());
    const Scores alone = scores_of(*input, {row, 1, 1}, QueryVectors(one, 1, kCols));
    EXPECT_EQ(alone.scores[0], together.scores[static_cast<std::size_t>(row * 6 + 5)]);
    EXPECT_EQ(alone.squares[0], together.squares[static_cast<std::size_t>(row)]);
  }
}

TEST(FeatureScores, WeightsBeyondFloat32SquaresAreSummedAgain) {
  constexpr std::int64_t kCols = 16;
  std::vector<float> weights(5 * kCols, 0.0F);
  std::fill_n(weights.begin(), kCols, 1e30F);           // squares overflow float32
  std::fill_n(weights.begin() + kCols, kCols, 1e-30F);  // squares are lost in float32
  weights[2 * kCols + 3] = std::numeric_limits<float>::infinity();
  weights[3 * kCols + 3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x(kCols, 1.0F);
  const QueryVectors queries(x, 1, kCols);
  for (const bool transposed : {false, true}) {
    const Stored stored(transposed ? turned(weights, 5, kCols) : weights, transposed ? kCols : 5,
                        transposed ? 5 : kCols);
    const auto input = stored.input(transposed);
    const Scores found = scores_of(*input, {0, 1, 5}, queries);
    EXPECT_NEAR(found.squares[0] / 16e60, 1.0, 1e-6);
    EXPECT_NEAR(found.scores[0] / 16e30, 1.0, 1e-6);
    EXPECT_NEAR(found.squares[1] / 16e-60, 1.0, 1e-6);
    EXPECT_NEAR(found.scores[1] / 16e-30, 1.0, 1e-6);
    EXPECT_FALSE(std::isfinite(found.squares[2]));
    EXPECT_FALSE(std::isfinite(found.squares[3]));
    EXPECT_EQ(found.squares[4], 0.0);
  }
}

TEST(MatrixLine, IsTheSameWhicheverWayTheMatrixIsStored) {
  const auto weights = noise(6 * 10, 5);
  const Stored plain(weights, 6, 10);
  const Stored other(turned(weights, 6, 10), 10, 6);
  const auto a = plain.input(false);
  const auto b = other.input(true);
  const std::vector<float> row(weights.begin() + 20, weights.begin() + 30);
  EXPECT_EQ(vindex::statistics::logical_row(*a, 2), row);
  EXPECT_EQ(vindex::statistics::logical_row(*b, 2), row);
  EXPECT_EQ(vindex::statistics::logical_column(*a, 7), vindex::statistics::logical_column(*b, 7));
  EXPECT_EQ(vindex::statistics::logical_column(*a, 7)[2], weights[27]);
}

TEST(FeatureScores, OfBlocksAreThoseOfTheirDecodedWeights) {
  constexpr std::int64_t kRows = 40, kCols = 512;
  const auto weights = noise(kRows * kCols, 6);
  Stored stored(weights, kRows, kCols);
  stored.encoding = vindex::decode::plain_encoding(ElementType::kQ8_0);
  const auto stride = vindex::decode::row_bytes(stored.encoding, kCols);
  std::vector<std::byte> codes(*stride * kRows);
  // Codes of any bits are valid: only the scale (float16, first in a block) must be a number.
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::byte>(i % 34 == 1 ? 0x20 : (i * 2654435761U) >> 24U);
  }
  stored.view.codes = codes.data();
  stored.view.row_stride_bytes = static_cast<std::int64_t>(*stride);
  const auto x = noise(kCols, 7);
  const QueryVectors queries(x, 1, kCols);
  const auto input = stored.input(false);
  const Scores found = scores_of(*input, {0, 1, kRows}, queries);
  for (std::int64_t f = 0; f < kRows; ++f) {
    const std::vector<float> row = vindex::statistics::logical_row(*input, f);
    double product = 0.0, square = 0.0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      product += static_cast<double>(row[i]) * x[i];
      square += static_cast<double>(row[i]) * row[i];
    }
    EXPECT_NEAR(found.scores[static_cast<std::size_t>(f)], product,
                1e-6 * std::sqrt(square) * queries.norm(0));
    const std::vector<float> column = vindex::statistics::logical_column(*input, 100);
    EXPECT_EQ(column[static_cast<std::size_t>(f)], row[100]);
  }
}

/// The same bits as of the decoded weights, for few queries (types that kernels take as they are
/// stored) and for many.
TEST(FeatureScores, OfStoredTypesAreThoseOfTheirDecodedWeightsToTheBit) {
  constexpr std::int64_t kRows = 11, kCols = 1544;  // more than a chunk, and a part of one
  for (const ElementType type : {ElementType::kF32, ElementType::kBF16, ElementType::kF16}) {
    const auto source = noise(kRows * kCols, 8);
    Stored stored(source, kRows, kCols);
    stored.encoding = vindex::decode::plain_encoding(type);
    const std::int64_t width = type == ElementType::kF32 ? 4 : 2;
    std::vector<std::byte> codes(static_cast<std::size_t>(kRows * kCols * width) + 1);
    std::byte* const at = codes.data() + 1;  // at no multiple of anything
    for (std::size_t i = 0; i < source.size(); ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &source[i], 4);
      std::uint32_t code = bits;
      if (type == ElementType::kBF16) {
        code = bits >> 16U;
      } else if (type == ElementType::kF16) {
        code = (bits * 2654435761U >> 16U) & 0xBBFFU;  // below 2, subnormal ones among them
      }
      std::memcpy(at + static_cast<std::int64_t>(i) * width, &code,
                  static_cast<std::size_t>(width));
    }
    stored.view.codes = at;
    stored.view.row_stride_bytes = kCols * width;
    std::vector<float> decoded(source.size());
    vindex::decode::decode_matrix(stored.view, decoded.data(), kCols);
    const Stored floats(decoded, kRows, kCols);
    const auto x = noise(9 * kCols, 9);
    for (const std::int64_t count : {1, 2, 4, 9}) {
      const std::vector<float> some(x.begin(), x.begin() + count * kCols);
      const QueryVectors queries(some, count, kCols);
      for (const ScoredRows range : {ScoredRows{0, 1, kRows}, ScoredRows{1, 2, 5}}) {
        const Scores found = scores_of(*stored.input(false), range, queries);
        const Scores expected = scores_of(*floats.input(false), range, queries);
        EXPECT_EQ(found.scores, expected.scores) << count;
        EXPECT_EQ(found.squares, expected.squares) << count;
      }
    }
  }
}

/// Bytes that pass by, as the engine gives them (engine/units/read_ahead_window.hpp).
class PassingInput final : public MatrixInput {
 public:
  explicit PassingInput(const Stored& stored) : inner_(stored.input(false)) {}
  const vindex::decode::Encoding& encoding() const override { return inner_->encoding(); }
  std::int64_t rows() const override { return inner_->rows(); }
  std::int64_t cols() const override { return inner_->cols(); }
  bool transposed() const override { return false; }
  std::uint64_t sign_flip_key() const override { return 0; }
  bool in_memory() const override { return false; }
  bool has_cheap_slabs() const override { return true; }
  vindex::decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    EXPECT_EQ(first, next_);
    next_ = first + count;
    largest_ = std::max(largest_, count);
    return inner_->row_slab(first, count);
  }
  vindex::decode::EncodedMatrix column_slab(std::int64_t /*first*/,
                                            std::int64_t /*count*/) override {
    ADD_FAILURE() << "rows pass by, columns do not";
    return {};
  }
  std::int64_t next_ = 0, largest_ = 0;

 private:
  std::unique_ptr<MatrixInput> inner_;
};

TEST(FeatureScores, OfRowsThatPassByAreAskedForByTheMebibyte) {
  constexpr std::int64_t kRows = 700, kCols = 1024;
  const Stored stored(noise(kRows * kCols, 10), kRows, kCols);
  PassingInput passing(stored);
  const auto x = noise(kCols, 11);
  const QueryVectors queries(x, 1, kCols);
  const Scores found = scores_of(passing, {0, 1, kRows}, queries);
  EXPECT_EQ(passing.next_, kRows);
  EXPECT_EQ(passing.largest_ * kCols * 4, 1 << 20);
  const Scores expected = scores_of(*stored.input(false), {0, 1, kRows}, queries);
  EXPECT_EQ(found.scores, expected.scores);
  EXPECT_EQ(found.squares, expected.squares);
}

}  // namespace
}  // namespace vindex::statistics::feature_scores_test
