// Blocks of the small and unevenly spaced formats, on paper.
#include "decode_support.hpp"

namespace vindex::decode::testing::small_blocks_test {
namespace {

TEST(SmallKBlocks, Q2_KTakesScaleAndMinimumOfItsSixteen) {
  auto bytes = zero_block(ElementType::kQ2_K);
  put_half(bytes, 80, kHalfOne);
  put_half(bytes, 82, kHalfMinusTwo);
  bytes[11] = 0x35;       // weights 176..191: second half, plane 1, upper sixteen
  bytes[16 + 48] = 0x08;  // byte 32 + 16: plane 1 has code 2
  const auto weights = decoded_block(ElementType::kQ2_K, bytes);
  EXPECT_EQ(weights[176], 5.0F * 2.0F + 2.0F * 3.0F);
  EXPECT_EQ(weights[177], 6.0F);
  EXPECT_EQ(weights[0], 0.0F);
}

TEST(SmallKBlocks, Q3_KScalesAndHighBits) {
  auto bytes = zero_block(ElementType::kQ3_K);
  put_half(bytes, 108, kHalfOne);
  bytes[96 + 1] = 0x70;  // low bits of scale 9: 7
  bytes[96 + 9] = 0x20;  // high bits of scale 9: 2 << 4
  bytes[16] = 0x10;      // weight 32*4 + 16: bit 4 of hmask[16]
  bytes[32 + 32 + 16] = 0x03;
  const auto weights = decoded_block(ElementType::kQ3_K, bytes);
  EXPECT_EQ(weights[144], 7.0F * 3.0F);
  EXPECT_EQ(weights[145], 7.0F * -4.0F);
  EXPECT_EQ(weights[0], -32.0F * -4.0F);
}

TEST(FourBitBlocks, IQ4_NLTakesItsTableInHalvesOrder) {
  auto bytes = zero_block(ElementType::kIQ4_NL);
  put_half(bytes, 0, kHalfMinusTwo);
  bytes[2] = 0xF8;
  const auto weights = decoded_block(ElementType::kIQ4_NL, bytes);
  EXPECT_EQ(weights[0], -2.0F);
  EXPECT_EQ(weights[16], -226.0F);
  EXPECT_EQ(weights[1], 254.0F);
}

TEST(FourBitBlocks, IQ4_XSJoinsSixScaleBits) {
  auto bytes = zero_block(ElementType::kIQ4_XS);
  put_half(bytes, 0, kHalfOne);
  bytes[3] = 0xC0;        // sub-block 7: high bits 3
  bytes[7] = 0xA0;        // sub-block 7: low bits 10
  bytes[8 + 127] = 0x98;  // weights 255 (high nibble) and 239
  const auto weights = decoded_block(ElementType::kIQ4_XS, bytes);
  EXPECT_EQ(weights[239], 26.0F * 1.0F);
  EXPECT_EQ(weights[255], 26.0F * 13.0F);
  EXPECT_EQ(weights[0], -32.0F * -127.0F);
}

TEST(FourBitBlocks, MXFP4HasNoMinusZeroAndKeepsSubnormalScales) {
  auto bytes = zero_block(ElementType::kMXFP4);
  bytes[0] = 128;
  bytes[1] = 0x18;
  bytes[2] = 0xF7;
  const auto weights = decoded_block(ElementType::kMXFP4, bytes);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(weights[0]), 0U);
  EXPECT_EQ(weights[16], 1.0F);
  EXPECT_EQ(weights[1], 12.0F);
  EXPECT_EQ(weights[17], -12.0F);
  bytes[0] = 0;
  EXPECT_EQ(decoded_block(ElementType::kMXFP4, bytes)[16], 0x1p-128F);
  bytes[0] = 254;
  EXPECT_EQ(decoded_block(ElementType::kMXFP4, bytes)[16], 0x1p126F);
  bytes[0] = 255;
  EXPECT_TRUE(std::isnan(decoded_block(ElementType::kMXFP4, bytes)[16]));
}

TEST(FourBitBlocks, NVFP4HasAScalePerSixteenAndNibblesInEights) {
  auto bytes = zero_block(ElementType::kNVFP4);
  bytes[0] = 0x7F;  // 0 in this format
  bytes[3] = 0x40;  // 2.0
  bytes[4] = 0x77;
  bytes[4 + 25] = 0x92;  // fourth sixteen: weights 1 (low) and 9 (high)
  const auto weights = decoded_block(ElementType::kNVFP4, bytes);
  EXPECT_EQ(weights[0], 0.0F);
  EXPECT_EQ(weights[48 + 1], 2.0F);
  EXPECT_EQ(weights[48 + 9], -1.0F);
  EXPECT_EQ(ue4m3_to_float(0xFF), 480.0F);
  EXPECT_EQ(ue4m3_to_float(0x80), 0.0F);
}

TEST(TernaryBlocks, TritsAreDigitsOfAFractionInBaseThree) {
  auto bytes = zero_block(ElementType::kTQ1_0);
  put_half(bytes, 52, kHalfMinusTwo);
  // 0.21 in base three is 7/9; 7/9 of 256 rounded up is 200.
  bytes[5] = 200;
  bytes[49] = 200;
  const auto weights = decoded_block(ElementType::kTQ1_0, bytes);
  EXPECT_EQ(weights[5], -2.0F);
  EXPECT_EQ(weights[32 + 5], 0.0F);
  EXPECT_EQ(weights[64 + 5], 2.0F);
  EXPECT_EQ(weights[241], -2.0F);
  EXPECT_EQ(weights[245], 0.0F);
}

TEST(TernaryBlocks, TQ2_0IsPlanesOfCodesLessOne) {
  auto bytes = zero_block(ElementType::kTQ2_0);
  put_half(bytes, 64, kHalfOne);
  bytes[32] = 0x24;  // second half: planes 0..3 are 0, 1, 2, 0
  const auto weights = decoded_block(ElementType::kTQ2_0, bytes);
  EXPECT_EQ(weights[128], -1.0F);
  EXPECT_EQ(weights[160], 0.0F);
  EXPECT_EQ(weights[192], 1.0F);
  EXPECT_EQ(weights[224], -1.0F);
}

TEST(TernaryBlocks, OneAndTwoBitCodesStartAtTheLeastBit) {
  auto one = zero_block(ElementType::kQ1_0);
  put_half(one, 0, kHalfMinusTwo);
  one[17] = 0x80;
  EXPECT_EQ(decoded_block(ElementType::kQ1_0, one)[127], -2.0F);
  EXPECT_EQ(decoded_block(ElementType::kQ1_0, one)[126], 2.0F);
  auto two = zero_block(ElementType::kQ2_0);
  put_half(two, 0, kHalfOne);
  two[17] = 0xC4;
  EXPECT_EQ(decoded_block(ElementType::kQ2_0, two)[60], -1.0F);
  EXPECT_EQ(decoded_block(ElementType::kQ2_0, two)[61], 0.0F);
  EXPECT_EQ(decoded_block(ElementType::kQ2_0, two)[63], 2.0F);
}

}  // namespace
}  // namespace vindex::decode::testing::small_blocks_test
