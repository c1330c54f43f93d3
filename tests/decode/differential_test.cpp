// The fast loops against the definition: every format, every SIMD level of this machine, random
// bytes (which hold every NaN, infinity and subnormal a format has), any alignment, any cut.
#include "decode_support.hpp"

namespace vindex::decode::testing::differential_test {
namespace {

TEST(Differential, EveryLevelGivesTheBitsOfOneByOneDecoding) {
  std::uint32_t seed = 1;
  for (const auto& [rows, cols] : {std::pair{5, 23}, {33, 77}, {19, 161}, {3, 400}}) {
    for (const SampleShape& shape : sample_shapes(rows, cols)) {
      const std::size_t misalignment = seed % 4;
      SCOPED_TRACE(shape.encoding.label + " seed " + std::to_string(seed));
      const RandomMatrix random(shape, seed++, misalignment);
      const std::vector<float> wanted = decoded_one_by_one(random.matrix());
      for (const SimdLevel level : supported_levels()) {
        EXPECT_TRUE(same_weights(decoded_at(level, random.matrix()), wanted))
            << simd_level_name(level);
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

// A view whose codes are a copy of its window alone, as on a device or read from a file.
std::vector<float> decoded_from_copy(const EncodedMatrix& view) {
  const CodeWindow window = code_window(view);
  std::vector<std::byte> copy(static_cast<std::size_t>(window.width * window.height));
  for (std::int64_t r = 0; r < window.height; ++r) {
    std::memcpy(copy.data() + r * window.width, view.codes + window.offset + r * window.stride,
                static_cast<std::size_t>(window.width));
  }
  EXPECT_LE(copy.size(), slab_bytes(*view.encoding, static_cast<std::uint64_t>(view.rows),
                                    static_cast<std::uint64_t>(view.cols))
                             .value());
  return decoded(with_codes(view, copy.data()));
}

TEST(Differential, SlabsHoldTheWeightsOfTheWhole) {
  for (const SampleShape& shape : sample_shapes(40, 96)) {
    SCOPED_TRACE(shape.encoding.label);
    const std::int64_t granule = column_granularity(shape.encoding);
    SampleShape wide = shape;
    if (granule > 32) {
      wide.cols = 4 * granule;
    }
    const RandomMatrix random(wide, 5, 1);
    const EncodedMatrix& matrix = random.matrix();
    const std::int64_t cols = matrix.cols;
    const std::vector<float> whole = decoded(matrix);
    const auto expect_cut = [&](const EncodedMatrix& view) {
      const std::vector<float> wanted =
          cut(whole, cols, view.first_row, view.rows, view.first_col, view.cols);
      EXPECT_TRUE(same_weights(decoded(view), wanted));
      EXPECT_TRUE(same_weights(decoded_one_by_one(view), wanted));
      EXPECT_TRUE(same_weights(decoded_from_copy(view), wanted));
    };
    expect_cut(matrix);
    expect_cut(row_slab(matrix, 2, 5));
    expect_cut(row_slab(matrix, 11, matrix.rows - 11));
    expect_cut(column_slab(matrix, granule, cols - 2 * granule));
    const EncodedMatrix inner =
        row_slab(column_slab(row_slab(matrix, 1, 7), granule, cols - granule), 3, 2);
    EXPECT_EQ(inner.first_row, 4);
    EXPECT_EQ(inner.first_col, granule);
    expect_cut(inner);
    // A slab of a slab that was itself copied.
    const Cut outer = cut_rows(matrix, 3, matrix.rows - 3);
    EXPECT_EQ(outer.view.codes, matrix.codes);
    EncodedMatrix moved = outer.view;
    moved.codes += outer.offset;
    const CodeWindow window = code_window(moved);
    std::vector<std::byte> copy;
    for (std::int64_t r = 0; r < window.height; ++r) {
      const std::byte* from = moved.codes + window.offset + r * window.stride;
      copy.insert(copy.end(), from, from + window.width);
    }
    expect_cut(row_slab(with_codes(moved, copy.data()), 9, 6));
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
}  // namespace vindex::decode::testing::differential_test
