// The tables, the labels, the geometry of rows and cuts, and what is refused.
#include "decode_support.hpp"

#include <vindex/error.hpp>

#include <set>
#include <string>

namespace vindex::decode::testing::encoding_test {
namespace {

TEST(ElementTypes, IdsAndNamesAreUnique) {
  std::set<std::string_view> names;
  std::set<std::int32_t> ids;
  for (const ElementTypeRow& row : element_type_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    if (row.ggml_id >= 0) {
      EXPECT_TRUE(ids.insert(row.ggml_id).second) << row.name;
      EXPECT_EQ(element_type_of_ggml(static_cast<std::uint32_t>(row.ggml_id)), row.type);
    }
    if (!row.safetensors.empty()) {
      EXPECT_EQ(element_type_of_safetensors(row.safetensors), row.type);
    }
  }
}

TEST(ElementTypes, RemovedAndForeignIdsAreUnknown) {
  for (const std::uint32_t id : {4U, 5U, 9U, 15U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, ~0U}) {
    EXPECT_FALSE(element_type_of_ggml(id).has_value()) << id;
  }
  EXPECT_FALSE(element_type_of_safetensors("").has_value());
  EXPECT_FALSE(element_type_of_safetensors("f32").has_value());
  EXPECT_FALSE(element_type_of_safetensors("Q4_K").has_value());
}

TEST(ElementTypes, BytesOfWholeBlocksOnly) {
  EXPECT_EQ(stored_bytes(ElementType::kQ4_K, 512), 288U);
  EXPECT_EQ(stored_bytes(ElementType::kQ4_K, 500), std::nullopt);
  EXPECT_EQ(stored_bytes(ElementType::kF6E2M3, 8), 6U);
  EXPECT_EQ(stored_bytes(ElementType::kBF16, 0), 0U);
  EXPECT_EQ(stored_bytes(ElementType::kF64, std::uint64_t{1} << 61U), std::nullopt);
}

TEST(ElementTypes, DecodersAgreeWithTheTable) {
  for (const FormatRow& row : format_rows()) {
    if (row.scheme == Scheme::kPlain) {
      EXPECT_EQ(row.elements, element_type_row(row.type).block_elements)
          << element_type_row(row.type).name;
    }
  }
}

TEST(Encodings, LabelsAreThoseOfTheResultsFile) {
  EXPECT_EQ(plain_encoding(ElementType::kBF16).label, "BF16");
  EXPECT_EQ(plain_encoding(ElementType::kQ4_K).label, "Q4_K");
  EXPECT_EQ(fp8_block_encoding(128, 128).label, "F8_E4M3/128x128");
  EXPECT_EQ(packed_int_encoding(4, 32).label, "INT4/g32");
  EXPECT_EQ(packed_int_encoding(8, 0).label, "INT8/channel");
}

TEST(Encodings, UnsupportedSchemesAndWidthsAreNotDecodable) {
  Encoding encoding;
  encoding.scheme = Scheme::kUnsupported;
  encoding.label = "INT3/g64";
  EXPECT_FALSE(is_decodable(encoding));
  Encoding wide = packed_int_encoding(8, 64);
  wide.bits = 9;
  EXPECT_FALSE(is_decodable(wide));
  EXPECT_FALSE(is_decodable(plain_encoding(ElementType::kC64)));
  EXPECT_FALSE(is_decodable(plain_encoding(ElementType::kBool)));
  EXPECT_TRUE(is_decodable(packed_int_encoding(4, 32)));
}

TEST(Encodings, PackedRowsAreWholeWords) {
  EXPECT_EQ(row_bytes(packed_int_encoding(4, 32), 64), 32U);
  EXPECT_EQ(row_bytes(packed_int_encoding(4, 32), 9), 8U);
  EXPECT_EQ(row_bytes(packed_int_encoding(8, 32), 5), 8U);
  EXPECT_EQ(row_bytes(packed_int_encoding(4, 32), ~std::uint64_t{0}), std::nullopt);
  EXPECT_EQ(row_bytes(plain_encoding(ElementType::kQ8_0), 33), std::nullopt);
  EXPECT_EQ(row_bytes(fp8_block_encoding(128, 128), 200), 200U);
  EXPECT_EQ(column_granularity(packed_int_encoding(4, 32)), 8);
  EXPECT_EQ(column_granularity(plain_encoding(ElementType::kQ6_K)), 256);
  EXPECT_EQ(column_granularity(fp8_block_encoding(128, 128)), 1);
}

TEST(Views, CutsOutsideOrWithinABlockAreRefused) {
  const RandomMatrix random(plain_encoding(ElementType::kQ8_0), 4, 96, 1);
  EXPECT_THROW(row_slab(random.matrix(), 3, 2), Error);
  EXPECT_THROW(row_slab(random.matrix(), -1, 2), Error);
  EXPECT_THROW(column_slab(random.matrix(), 16, 32), Error);
  EXPECT_THROW(column_slab(random.matrix(), 32, 16), Error);
  EXPECT_THROW(column_slab(random.matrix(), 64, 64), Error);
  EXPECT_EQ(column_slab(random.matrix(), 96, 0).cols, 0);
}

TEST(Views, EmptyOnesDecodeToNothing) {
  const RandomMatrix random(fp8_block_encoding(128, 128), 4, 96, 1);
  float untouched = 5.0F;
  decode_matrix(row_slab(random.matrix(), 4, 0), &untouched, 96);
  decode_matrix(column_slab(random.matrix(), 96, 0), &untouched, 96);
  EXPECT_EQ(untouched, 5.0F);
}

TEST(Views, MissingOrShortScalesAreRefused) {
  const RandomMatrix random(fp8_block_encoding(2, 16), 4, 32, 1);
  float out[128];
  EncodedMatrix without = random.matrix();
  without.companion_count = 0;
  EXPECT_THROW(decode_matrix(without, out, 32), Error);
  EncodedMatrix short_scales = random.matrix();
  short_scales.companions[0].bytes = short_scales.companions[0].bytes.first(15);
  EXPECT_THROW(decode_matrix(short_scales, out, 32), Error);
  EncodedMatrix few_scales = random.matrix();
  few_scales.companions[0].rows = 1;
  EXPECT_THROW(decode_matrix(few_scales, out, 32), Error);
  EncodedMatrix odd_scales = random.matrix();
  odd_scales.companions[0].type = ElementType::kI32;
  EXPECT_THROW(decode_matrix(odd_scales, out, 32), Error);
}

TEST(Views, UndecodableEncodingsAreRefused) {
  EncodedMatrix matrix;
  const Encoding encoding = plain_encoding(ElementType::kC64);
  matrix.encoding = &encoding;
  float out = 0.0F;
  EXPECT_THROW(decode_matrix(matrix, &out, 1), Error);
  matrix.encoding = nullptr;
  EXPECT_THROW(decode_matrix(matrix, &out, 1), Error);
}

TEST(Levels, TheBestOneIsSupported) {
  EXPECT_TRUE(is_supported(best_simd_level()));
  EXPECT_TRUE(is_supported(SimdLevel::kBaseline));
  EXPECT_FALSE(is_supported(SimdLevel::kCount));
}

}  // namespace
}  // namespace vindex::decode::testing::encoding_test
