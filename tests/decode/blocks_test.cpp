// Blocks small enough to decode on paper.
#include "decode_support.hpp"

#include <array>

namespace vindex::decode::testing::blocks_test {
namespace {

TEST(SimpleBlocks, Q4_0LowNibblesComeFirstAndScalesMayBeNegative) {
  auto bytes = zero_block(ElementType::kQ4_0);
  put_half(bytes, 0, kHalfMinusTwo);
  bytes[2] = 0xF0;  // weight 0: 0 - 8, weight 16: 15 - 8
  bytes[17] = 0x19;
  const auto weights = decoded_block(ElementType::kQ4_0, bytes);
  EXPECT_EQ(weights[0], 16.0F);
  EXPECT_EQ(weights[16], -14.0F);
  EXPECT_EQ(weights[15], -2.0F);
  EXPECT_EQ(weights[31], 14.0F);
}

TEST(SimpleBlocks, Q4_1AddsTheMinimum) {
  auto bytes = zero_block(ElementType::kQ4_1);
  put_half(bytes, 0, kHalfOne);
  put_half(bytes, 2, kHalfMinusTwo);
  bytes[4] = 0x53;
  const auto weights = decoded_block(ElementType::kQ4_1, bytes);
  EXPECT_EQ(weights[0], 1.0F);
  EXPECT_EQ(weights[16], 3.0F);
  EXPECT_EQ(weights[1], -2.0F);
}

TEST(SimpleBlocks, Q5_0TakesTheFifthBitInHalvesOrder) {
  auto bytes = zero_block(ElementType::kQ5_0);
  put_half(bytes, 0, kHalfOne);
  bytes[2] = 0x02;  // weight 1
  bytes[4] = 0x01;  // weight 16
  bytes[6] = 0x10;  // weight 16 has nibble 1
  const auto weights = decoded_block(ElementType::kQ5_0, bytes);
  EXPECT_EQ(weights[0], -16.0F);
  EXPECT_EQ(weights[1], 0.0F);
  EXPECT_EQ(weights[16], 1.0F);
  EXPECT_EQ(weights[17], -16.0F);
}

TEST(SimpleBlocks, Q5_1AddsTheMinimumToFiveBits) {
  auto bytes = zero_block(ElementType::kQ5_1);
  put_half(bytes, 0, kHalfOne);
  put_half(bytes, 2, kHalfMinusTwo);
  bytes[7] = 0x80;   // weight 31
  bytes[23] = 0xF0;  // weight 31: nibble 15
  const auto weights = decoded_block(ElementType::kQ5_1, bytes);
  EXPECT_EQ(weights[31], 29.0F);
  EXPECT_EQ(weights[15], -2.0F);
}

TEST(SimpleBlocks, Q8_0CodesAreSigned) {
  auto bytes = zero_block(ElementType::kQ8_0);
  put_half(bytes, 0, kHalfMinusTwo);
  bytes[2] = 0x80;
  bytes[33] = 0x7F;
  const auto weights = decoded_block(ElementType::kQ8_0, bytes);
  EXPECT_EQ(weights[0], 256.0F);
  EXPECT_EQ(weights[31], -254.0F);
}

TEST(KBlocks, Q4_KReadsSixBitPairsOfBothHalves) {
  auto bytes = zero_block(ElementType::kQ4_K);
  put_half(bytes, 0, kHalfOne);
  put_half(bytes, 2, kHalfMinusTwo);
  bytes[4 + 0] = 0xC1;    // scale 0 = 1; its upper bits are those of scale 4: 3 << 4
  bytes[4 + 4] = 0x82;    // minimum 0 = 2; upper bits of minimum 4: 2 << 4
  bytes[4 + 8] = 0x5F;    // scale 4 = 15 | 48, minimum 4 = 5 | 32
  bytes[16] = 0x73;       // weights 0 and 32
  bytes[16 + 64] = 0x0A;  // weight 128
  const auto weights = decoded_block(ElementType::kQ4_K, bytes);
  EXPECT_EQ(weights[0], 1.0F * 3.0F + 2.0F * 2.0F);
  EXPECT_EQ(weights[32], 0.0F);
  EXPECT_EQ(weights[128], 63.0F * 10.0F + 2.0F * 37.0F);
}

TEST(KBlocks, Q5_KTakesBitKOfItsColumn) {
  auto bytes = zero_block(ElementType::kQ5_K);
  put_half(bytes, 0, kHalfOne);
  bytes[4 + 1] = 3;      // scale of sub-block 1
  bytes[16 + 7] = 0x02;  // bit 1 of column 7
  bytes[48 + 7] = 0x40;  // high nibble of column 7
  const auto weights = decoded_block(ElementType::kQ5_K, bytes);
  EXPECT_EQ(weights[32 + 7], 3.0F * 20.0F);
  EXPECT_EQ(weights[7], 0.0F);
}

TEST(KBlocks, Q6_KPlacesFourPlanesOfEachHalf) {
  auto bytes = zero_block(ElementType::kQ6_K);
  put_half(bytes, 208, kHalfOne);
  for (std::size_t scale = 0; scale < 16; ++scale) {
    bytes[192 + scale] = static_cast<std::uint8_t>(scale == 13 ? -128 : 1);
  }
  bytes[64 + 32 + 20] = 0x50;   // second half, plane 3 (high nibble of ql[l + 32]), l = 20
  bytes[128 + 32 + 20] = 0xC0;  // its two bits: 3
  bytes[64 + 3] = 0x07;         // second half, plane 0, l = 3
  const auto weights = decoded_block(ElementType::kQ6_K, bytes);
  EXPECT_EQ(weights[128 + 96 + 20], 53.0F - 32.0F);
  EXPECT_EQ(weights[128 + 3], 7.0F - 32.0F);
  EXPECT_EQ(weights[13 * 16], -128.0F * -32.0F);
}

TEST(ScaledFormats, SecondGroupUsesSecondScale) {
  const Encoding encoding = packed_int_encoding(4, 8);
  const std::array<std::uint32_t, 2> words{0xF8000001U, 0x0000000CU};
  const std::array<float, 2> scales{2.0F, 10.0F};
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 1;
  matrix.cols = 16;
  matrix.codes = reinterpret_cast<const std::byte*>(words.data());
  matrix.row_stride_bytes = 8;
  matrix.companions[0] = {CompanionRole::kScale, ElementType::kF32, 1, 2,
                          std::as_bytes(std::span(scales))};
  matrix.companion_count = 1;
  const auto weights = decoded(matrix);
  EXPECT_EQ(weights[0], (1.0F - 8.0F) * 2.0F);
  EXPECT_EQ(weights[1], -16.0F);
  EXPECT_EQ(weights[6], 0.0F);
  EXPECT_EQ(weights[7], 14.0F);
  EXPECT_EQ(weights[8], 40.0F);
}

TEST(ScaledFormats, Fp8WeightIsCodeTimesItsBlocksScale) {
  const Encoding encoding = fp8_block_encoding(2, 2);
  const std::array<std::uint8_t, 9> codes{0x38, 0x38, 0xC0, 0x38, 0x38, 0x38, 0x38, 0x38, 0x7F};
  const std::array<float, 4> scales{1.0F, 3.0F, 5.0F, 7.0F};
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 3;
  matrix.cols = 3;
  matrix.codes = reinterpret_cast<const std::byte*>(codes.data());
  matrix.row_stride_bytes = 3;
  matrix.companions[0] = {CompanionRole::kScale, ElementType::kF32, 2, 2,
                          std::as_bytes(std::span(scales))};
  matrix.companion_count = 1;
  const auto weights = decoded(matrix);
  EXPECT_EQ(weights[0], 1.0F);
  EXPECT_EQ(weights[2], -6.0F);
  EXPECT_EQ(weights[5], 3.0F);
  EXPECT_EQ(weights[6], 5.0F);
  EXPECT_TRUE(std::isnan(weights[8]));
}

}  // namespace
}  // namespace vindex::decode::testing::blocks_test
