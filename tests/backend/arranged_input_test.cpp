// Inputs that arrange the weights of others: every slab of them beside the same numbers computed in
// memory, in every orientation, also of encodings that are cut at blocks only.
#include "backend/derived_input.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

namespace vindex::statistics::arranged_input_test {
namespace {

using At = std::function<float(std::int64_t row, std::int64_t col)>;

/// rows x cols floats, stored as they are or turned.
struct Stored {
  Stored(std::int64_t rows, std::int64_t cols, unsigned seed, bool transposed = false)
      : values(static_cast<std::size_t>(rows * cols)),
        stride(transposed ? rows : cols),
        turned(transposed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::generate(values.begin(), values.end(), [&] { return uniform(random); });
    input = make_memory_input(decode::float32_view(values.data(), transposed ? cols : rows, stride),
                              transposed, 17);
  }
  float at(std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>(turned ? col * stride + row : row * stride + col)];
  }
  std::vector<float> values;
  std::int64_t stride;
  bool turned;
  std::unique_ptr<MatrixInput> input;
};

std::vector<float> decoded(const decode::EncodedMatrix& slab) {
  std::vector<float> out(static_cast<std::size_t>(slab.rows * slab.cols));
  decode::decode_matrix(slab, out.data(), slab.cols);
  return out;
}

/// Every slab of `input`, of several sizes, against `at` of its stored rows and columns.
void expect_slabs(MatrixInput& input, const At& at) {
  ASSERT_FALSE(input.in_memory());
  for (const std::int64_t step : {std::int64_t{1}, std::int64_t{5}, std::int64_t{64}}) {
    for (std::int64_t first = 0; first < input.rows(); first += step) {
      const std::int64_t count = std::min(step, input.rows() - first);
      const std::vector<float> got = decoded(input.row_slab(first, count));
      for (std::int64_t i = 0; i < count * input.cols(); ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(i)], at(first + i / input.cols(), i % input.cols()));
      }
    }
    for (std::int64_t first = 0; first < input.cols(); first += step) {
      const std::int64_t count = std::min(step, input.cols() - first);
      const std::vector<float> got = decoded(input.column_slab(first, count));
      for (std::int64_t i = 0; i < count * input.rows(); ++i) {
        ASSERT_EQ(got[static_cast<std::size_t>(i)], at(i / count, first + i % count));
      }
    }
  }
}

TEST(ArrangedInputTest, ADifferenceIsRoundedOnceInEveryOrientation) {
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      Stored a(37, 23, 1, turn_a), b(37, 23, 2, turn_b);
      const auto input = make_difference_input(*a.input, *b.input);
      EXPECT_EQ(input->transposed(), turn_a);
      EXPECT_EQ(input->sign_flip_key(), 17U);
      expect_slabs(*input, [&](std::int64_t row, std::int64_t col) {
        const std::int64_t r = turn_a ? col : row, c = turn_a ? row : col;
        return b.at(r, c) - a.at(r, c);
      });
      // Its buffer is gone, and comes back for whoever asks.
      input->release();
      EXPECT_EQ(decoded(input->row_slab(3, 1))[0],
                b.at(turn_a ? 0 : 3, turn_a ? 3 : 0) - a.at(turn_a ? 0 : 3, turn_a ? 3 : 0));
    }
  }
}

TEST(ArrangedInputTest, BlocksOfAnEncodingAreCutWhereTheyMayBe) {
  Stored a(40, 96, 3);
  Stored b(40, 96, 4);
  const decode::Encoding blocks = decode::plain_encoding(decode::ElementType::kQ8_0);
  std::vector<std::byte> codes(40 * 3 * 34);
  std::vector<float> rounded(b.values.size());
  decode::encode_matrix(blocks, b.values.data(), 40, 96, 96, codes, {});
  decode::EncodedMatrix matrix;
  matrix.encoding = &blocks;
  matrix.rows = 40;
  matrix.cols = 96;
  matrix.codes = codes.data();
  matrix.row_stride_bytes = 3 * 34;
  decode::decode_matrix(matrix, rounded.data(), 96);
  const auto quantised = make_memory_input(matrix);
  const auto value = [&](std::int64_t row, std::int64_t col) {
    return rounded[static_cast<std::size_t>(row * 96 + col)];
  };
  const auto forth = make_difference_input(*a.input, *quantised);
  expect_slabs(
      *forth, [&](std::int64_t row, std::int64_t col) { return value(row, col) - a.at(row, col); });
  // The other way round, beside a matrix that is stored turned.
  Stored turned(40, 96, 5, true);
  const auto back = make_difference_input(*turned.input, *quantised);
  expect_slabs(*back, [&](std::int64_t row, std::int64_t col) {
    return value(col, row) - turned.at(col, row);
  });
}

TEST(ArrangedInputTest, RotaryRowsGoThereAndBack) {
  // Head of 6: halves 0 1 2 | 3 4 5 are pairs 0 3 | 1 4 | 2 5.
  const std::int64_t pairs[] = {0, 3, 1, 4, 2, 5};
  for (std::int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(rotary_row(row, 6, RotaryRows::kPairs), pairs[row]);
    EXPECT_EQ(rotary_row(rotary_row(row, 6, RotaryRows::kPairs), 6, RotaryRows::kHalves), row);
  }
  Stored halves(24, 11, 6);
  const auto input = make_rotary_input(*halves.input, 6, RotaryRows::kPairs);
  expect_slabs(*input, [&](std::int64_t row, std::int64_t col) {
    return halves.at(row / 6 * 6 + pairs[row % 6], col);
  });
  const auto again = make_rotary_input(*input, 6, RotaryRows::kHalves);
  expect_slabs(*again, [&](std::int64_t row, std::int64_t col) { return halves.at(row, col); });
}

TEST(ArrangedInputTest, PartsStandBelowEachOther) {
  Stored key(7, 5, 7), value(4, 7, 8), turned(6, 7, 9, true);
  const auto input = make_stacked_input(
      {{key.input.get(), true}, {value.input.get(), false}, {turned.input.get(), false}});
  EXPECT_EQ(input->rows(), 5 + 4 + 6);
  EXPECT_EQ(input->cols(), 7);
  expect_slabs(*input, [&](std::int64_t row, std::int64_t col) {
    return row < 5 ? key.at(col, row)
                   : (row < 9 ? value.at(row - 5, col) : turned.at(row - 9, col));
  });
}

TEST(ArrangedInputTest, ASlabOfALargeMatrixIsBounded) {
  EXPECT_LE(arranged_slab_bytes(129280, 7168), 80U << 20U);
}

}  // namespace
}  // namespace vindex::statistics::arranged_input_test
