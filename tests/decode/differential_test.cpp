// The fast loops against the definition: every format, every SIMD level of this machine, random
// bytes (which hold every NaN, infinity and subnormal a format has), any alignment, any cut.
#include "decode_support.hpp"

namespace vindex::decode::testing {
namespace {

TEST(Differential, EveryLevelGivesTheBitsOfOneByOneDecoding) {
  std::uint32_t seed = 1;
  for (const Encoding& encoding : decodable_encodings()) {
    for (const std::size_t misalignment : {0U, 1U, 3U}) {
      for (const std::int64_t blocks : {1, 3, 7}) {
        SCOPED_TRACE(encoding.label + " seed " + std::to_string(seed));
        const std::int64_t granule = std::max<std::int64_t>(column_granularity(encoding), 23);
        const std::int64_t cols = encoding.scheme == Scheme::kPlain
                                      ? column_granularity(encoding) * (blocks + 11)
                                      : granule * blocks;
        const RandomMatrix random(encoding, 5, cols, seed++, misalignment);
        const std::vector<float> wanted = decoded_one_by_one(random.matrix());
        for (const SimdLevel level : supported_levels()) {
          EXPECT_TRUE(same_weights(decoded_at(level, random.matrix()), wanted))
              << simd_level_name(level);
        }
      }
    }
  }
}

TEST(Differential, ScalesOfEveryTypeAreRead) {
  for (const ElementType type :
       {ElementType::kF32, ElementType::kBF16, ElementType::kF16, ElementType::kF8E8M0}) {
    for (const Encoding& encoding :
         {fp8_block_encoding(2, 16), packed_int_encoding(4, 16), packed_int_encoding(8, 0)}) {
      const RandomMatrix random(encoding, 6, 40, 77, 1, type);
      const std::vector<float> wanted = decoded_one_by_one(random.matrix());
      for (const SimdLevel level : supported_levels()) {
        EXPECT_TRUE(same_weights(decoded_at(level, random.matrix()), wanted))
            << encoding.label << " " << element_type_row(type).name;
      }
    }
  }
}

// The weights [row, row + rows) x [col, col + cols) of a matrix of `all_cols` columns.
std::vector<float> cut(const std::vector<float>& all, std::int64_t all_cols, std::int64_t row,
                       std::int64_t rows, std::int64_t col, std::int64_t cols) {
  std::vector<float> out;
  for (std::int64_t r = row; r < row + rows; ++r) {
    for (std::int64_t c = col; c < col + cols; ++c) {
      out.push_back(all[static_cast<std::size_t>(r * all_cols + c)]);
    }
  }
  return out;
}

TEST(Differential, SlabsHoldTheWeightsOfTheWhole) {
  for (const Encoding& encoding : decodable_encodings()) {
    SCOPED_TRACE(encoding.label);
    const std::int64_t granule = column_granularity(encoding);
    const std::int64_t cols = granule * (granule > 32 ? 4 : 45);
    const RandomMatrix random(encoding, 8, cols, 5, 1);
    const std::vector<float> whole = decoded(random.matrix());
    EXPECT_TRUE(
        same_weights(decoded(row_slab(random.matrix(), 2, 5)), cut(whole, cols, 2, 5, 0, cols)));
    const std::int64_t first = granule;
    EXPECT_TRUE(same_weights(decoded(column_slab(random.matrix(), first, cols - 2 * granule)),
                             cut(whole, cols, 0, 8, first, cols - 2 * granule)));
    const EncodedMatrix inner =
        row_slab(column_slab(row_slab(random.matrix(), 1, 7), first, cols - first), 3, 2);
    EXPECT_EQ(inner.first_row, 4);
    EXPECT_EQ(inner.first_col, first);
    EXPECT_TRUE(same_weights(decoded(inner), cut(whole, cols, 4, 2, first, cols - first)));
  }
}

TEST(Differential, EdgeBlocksOfFp8ArePartial) {
  const RandomMatrix random(fp8_block_encoding(128, 128), 130, 200, 9, 0);
  const EncodedMatrix& matrix = random.matrix();
  EXPECT_EQ(matrix.companions[0].rows, 2);
  EXPECT_EQ(matrix.companions[0].cols, 2);
  const std::vector<float> wanted = decoded_one_by_one(matrix);
  EXPECT_TRUE(same_weights(decoded(matrix), wanted));
  const EncodedMatrix corner = column_slab(row_slab(matrix, 127, 3), 126, 74);
  EXPECT_TRUE(same_weights(decoded(corner), cut(wanted, 200, 127, 3, 126, 74)));
}

TEST(Differential, OutputStrideLeavesTheGapsAlone) {
  const RandomMatrix random(plain_encoding(ElementType::kQ8_0), 3, 64, 3);
  std::vector<float> out(3 * 70, -7.0F);
  decode_matrix(random.matrix(), out.data(), 70);
  const std::vector<float> wanted = decoded_one_by_one(random.matrix());
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t col = 0; col < 70; ++col) {
      const float got = out[static_cast<std::size_t>(row * 70 + col)];
      if (col < 64) {
        EXPECT_TRUE(same_weight(got, wanted[static_cast<std::size_t>(row * 64 + col)]));
      } else {
        EXPECT_EQ(got, -7.0F);
      }
    }
  }
}

}  // namespace
}  // namespace vindex::decode::testing
