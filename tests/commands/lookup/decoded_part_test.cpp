// Rows and columns of a logical matrix, cut from plain values and from blocks, stored either way.
#include "commands/lookup/store/decoded_part.hpp"

#include "tests/support/encoded_weights.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace vindex::commands::decoded_part_test {
namespace {

using decode::ElementType;

constexpr std::int64_t kRows = 37, kCols = 96;

/// Stored as kRows x kCols: a block of Q8_0 is 32 values of a row.
testing::EncodedWeights stored(ElementType type) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(kRows * kCols);
  for (float& value : values) {
    value = normal(random);
  }
  return testing::encoded_weights(decode::plain_encoding(type), kRows, kCols, values);
}

class DecodedPart : public ::testing::TestWithParam<ElementType> {};

TEST_P(DecodedPart, RowsAndColumnsAreThoseOfTheWholeMatrix) {
  const testing::EncodedWeights matrix = stored(GetParam());
  const std::vector<float> whole = matrix.weights();
  for (const bool transposed : {false, true}) {
    const std::int64_t rows = transposed ? kCols : kRows, cols = transposed ? kRows : kCols;
    const auto at = [&](std::int64_t row, std::int64_t col) {
      return whole[static_cast<std::size_t>(transposed ? col * kCols + row : row * kCols + col)];
    };
    const auto input = make_memory_input(matrix.view(), transposed);
    for (const auto& [first, step, count] : std::vector<std::array<std::int64_t, 3>>{
             {0, 1, rows}, {rows - 1, 1, 1}, {3, 2, 9}, {5, 1, 30}, {0, 7, 5}}) {
      const std::vector<float> part = decoded_rows(*input, first, step, count);
      ASSERT_EQ(part.size(), static_cast<std::size_t>(count * cols));
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t col = 0; col < cols; ++col) {
          ASSERT_EQ(part[static_cast<std::size_t>(i * cols + col)], at(first + i * step, col))
              << transposed << " row " << first + i * step << ", " << col;
        }
      }
    }
    for (const auto& [first, count] :
         std::vector<std::array<std::int64_t, 2>>{{0, cols}, {cols - 1, 1}, {3, 20}, {17, 1}}) {
      const std::vector<float> part = decoded_columns(*input, first, count);
      ASSERT_EQ(part.size(), static_cast<std::size_t>(count * rows));
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t row = 0; row < rows; ++row) {
          ASSERT_EQ(part[static_cast<std::size_t>(i * rows + row)], at(row, first + i))
              << transposed << " column " << first + i << ", " << row;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DecodedPart,
                         ::testing::Values(ElementType::kF32, ElementType::kBF16,
                                           ElementType::kQ8_0));

}  // namespace
}  // namespace vindex::commands::decoded_part_test
