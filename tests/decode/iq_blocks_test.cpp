// The codebook formats: tables by digest, blocks on paper, and every entry, sign and scale of each
// format against its rule written out plainly in double.
#include "decode_support.hpp"

#include "core/digest.hpp"

#include <string>

namespace vindex::decode::testing::iq_blocks_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The values of a codebook, one signed byte each, in order.
template <typename Entry, typename Value>
std::string values_of(std::uint32_t entries, int codes, int bits, Entry entry, Value value) {
  std::string out;
  for (std::uint32_t i = 0; i < entries; ++i) {
    for (int j = 0; j < codes; ++j) {
      const std::uint32_t code = entry(i) >> static_cast<unsigned>(bits * j) & ((1U << bits) - 1U);
      out.push_back(static_cast<char>(value(code)));
    }
  }
  return out;
}

int ternary_value(std::uint32_t code) { return static_cast<int>(code) - 1; }

// Digests of ggml's tables, values as signed bytes (ggml src/ggml-common.h).
TEST(IqCodebooks, HoldTheValuesOfGgml) {
  const auto digest = [](const std::string& values) { return hex(sha256(values)); };
  EXPECT_EQ(digest(values_of(2048, 8, 2, iq1_entry, ternary_value)),
            "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a");
  EXPECT_EQ(digest(values_of(256, 8, 2, iq2_xxs_entry, iq2_value)),
            "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54");
  EXPECT_EQ(digest(values_of(512, 8, 2, iq2_xs_entry, iq2_value)),
            "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de");
  EXPECT_EQ(digest(values_of(1024, 8, 2, iq2_s_entry, iq2_value)),
            "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88");
  EXPECT_EQ(digest(values_of(256, 4, 3, iq3_xxs_entry, iq3_xxs_value)),
            "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d");
  EXPECT_EQ(digest(values_of(512, 4, 3, iq3_s_entry, iq3_s_value)),
            "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f");
}

TEST(IqCodebooks, TheEighthSignMakesTheMinusSignsEven) {
  for (std::uint32_t seven = 0; seven < 128; ++seven) {
    for (const unsigned shift : {0U, 7U, 14U, 21U}) {
      const std::uint32_t signs = even_signs(seven << shift | 0xF0000000U);
      const std::uint32_t own = signs >> (shift / 7U * 8U) & 0xFFU;
      EXPECT_EQ(own & 0x7FU, seven);
      EXPECT_EQ(std::popcount(own) % 2, 0);
      EXPECT_EQ(std::popcount(signs), std::popcount(own)) << "the others are plus";
    }
  }
}

TEST(IqBlocks, IQ2_XXSTakesIndexScaleAndSigns) {
  Bytes bytes = zero_block(ElementType::kIQ2_XXS);
  put_half(bytes, 0, kHalfOne);
  bytes[2 + 1] = 1;     // group 1: entry 1 is 43 8 8 8 8 8 8 8
  bytes[2 + 4] = 0x80;  // group 1 (bits 7..13): only bit 0 set
  bytes[2 + 7] = 0x30;  // scale code 3
  const Bytes copy = bytes;
  const auto weights = decoded_block(ElementType::kIQ2_XXS, copy);
  EXPECT_EQ(weights[0], 8.0F * 3.5F * 0.25F);
  EXPECT_EQ(weights[8], -43.0F * 3.5F * 0.25F);
  EXPECT_EQ(weights[9], 8.0F * 3.5F * 0.25F);
  EXPECT_EQ(weights[15], -8.0F * 3.5F * 0.25F) << "the eighth sign evens the first";
  EXPECT_EQ(weights[32], 8.0F * 0.5F * 0.25F);
}

TEST(IqBlocks, IQ1_MGathersItsScaleFromFourNibbles) {
  Bytes bytes = zero_block(ElementType::kIQ1_M);
  bytes[49] = 0x00;  // 0x3C00, one nibble per word, lowest first
  bytes[51] = 0x00;
  bytes[53] = 0xC0;
  bytes[55] = 0x30;
  bytes[32] = 0x80;  // group 1: shift down
  bytes[48] = 0x02;  // weights 0..15: scale code 2
  const auto weights = decoded_block(ElementType::kIQ1_M, bytes);
  EXPECT_EQ(weights[0], 5.0F * (-1.0F + 0.125F));
  EXPECT_EQ(weights[8], 5.0F * (-1.0F - 0.125F));
  EXPECT_EQ(weights[16], -0.875F);
}

std::uint32_t word(const Bytes& bytes, std::size_t at) {
  return bytes[at] | static_cast<std::uint32_t>(bytes[at + 1]) << 8U;
}
std::uint32_t long_word(const Bytes& bytes, std::size_t at) {
  return word(bytes, at) | word(bytes, at + 2) << 16U;
}
double half_of(std::uint32_t bits) {
  return static_cast<double>(half_to_float(static_cast<std::uint16_t>(bits)));
}
/// Sign `j` of the seven-bit index in the low bits of `packed`.
double sign_of(std::uint32_t packed, int j) {
  const bool minus = j < 7 ? (packed >> static_cast<unsigned>(j) & 1U) != 0U
                           : std::popcount(packed & 127U) % 2 != 0;
  return minus ? -1.0 : 1.0;
}
double signed_bit(std::uint32_t signs, int j) {
  return (signs >> static_cast<unsigned>(j) & 1U) != 0U ? -1.0 : 1.0;
}
double eight_of(std::uint32_t entry, int j) {
  return iq2_value(entry >> static_cast<unsigned>(2 * j) & 3U);
}

/// Weight `i` of a block by its rule, in double.
double iq2_xxs(const Bytes& b, int i) {
  const auto run = static_cast<std::size_t>(2 + i / 32 * 8);
  const std::uint32_t a = long_word(b, run + 4);
  const int l = i % 32 / 8;
  return half_of(word(b, 0)) * (0.5 + (a >> 28U)) * 0.25 *
         eight_of(iq2_xxs_entry(b[run + static_cast<std::size_t>(l)]), i % 8) *
         sign_of(a >> static_cast<unsigned>(7 * l), i % 8);
}
double nibble_scale(const Bytes& b, std::size_t scales, int i) {
  return 0.5 + (b[scales + static_cast<std::size_t>(i / 32)] >> (i % 32 / 16 * 4) & 15);
}
double iq2_xs(const Bytes& b, int i) {
  const std::uint32_t q = word(b, static_cast<std::size_t>(2 + i / 8 * 2));
  return half_of(word(b, 0)) * nibble_scale(b, 66, i) * 0.25 *
         eight_of(iq2_xs_entry(q & 511U), i % 8) * sign_of(q >> 9U, i % 8);
}
double iq2_s(const Bytes& b, int i) {
  const auto group = static_cast<std::size_t>(i / 8);
  const std::uint32_t high = b[66 + group / 4] >> (2 * (group % 4)) & 3U;
  return half_of(word(b, 0)) * nibble_scale(b, 74, i) * 0.25 *
         eight_of(iq2_s_entry(b[2 + group] | high << 8U), i % 8) * signed_bit(b[34 + group], i % 8);
}
double iq3_xxs(const Bytes& b, int i) {
  const std::uint32_t a = long_word(b, static_cast<std::size_t>(66 + i / 32 * 4));
  const std::uint32_t entry = iq3_xxs_entry(b[static_cast<std::size_t>(2 + i / 4)]);
  return half_of(word(b, 0)) * (0.5 + (a >> 28U)) * 0.5 *
         iq3_xxs_value(entry >> static_cast<unsigned>(3 * (i % 4)) & 7U) *
         sign_of(a >> static_cast<unsigned>(7 * (i % 32 / 8)), i % 8);
}
double iq3_s(const Bytes& b, int i) {
  const auto group = static_cast<std::size_t>(i / 4);
  const std::uint32_t high = b[66 + group / 8] >> (group % 8) & 1U;
  const std::uint32_t entry = iq3_s_entry(b[2 + group] | high << 8U);
  const int nibble = b[static_cast<std::size_t>(106 + i / 64)] >> (i / 32 % 2 * 4) & 15;
  return half_of(word(b, 0)) * (1 + 2 * nibble) *
         iq3_s_value(entry >> static_cast<unsigned>(3 * (i % 4)) & 7U) *
         signed_bit(b[static_cast<std::size_t>(74 + i / 8)], i % 8);
}
double iq1_s(const Bytes& b, int i) {
  const auto group = static_cast<std::size_t>(i / 8);
  const std::uint32_t high = word(b, 34 + group / 4 * 2);
  const std::uint32_t upper = high >> (3 * (group % 4)) & 7U;
  const std::uint32_t entry = iq1_entry(b[2 + group] | upper << 8U);
  const double delta = (high >> 15U) != 0U ? -0.125 : 0.125;
  return half_of(word(b, 0)) * (2 * (high >> 12U & 7U) + 1) *
         (ternary_value(entry >> static_cast<unsigned>(2 * (i % 8)) & 3U) + delta);
}
double iq1_m(const Bytes& b, int i) {
  const auto group = static_cast<std::size_t>(i / 8);
  std::uint32_t bits = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    bits |= word(b, 48 + 2 * k) >> 12U << (4 * k);
  }
  const auto run = static_cast<std::size_t>(i / 16);
  const std::uint32_t scale = word(b, 48 + run / 4 * 2) >> (3 * (run % 4)) & 7U;
  const std::uint32_t nibble = b[32 + group / 2] >> (group % 2 * 4) & 15U;
  const std::uint32_t entry = iq1_entry(b[group] | (nibble & 7U) << 8U);
  const double delta = nibble >= 8U ? -0.125 : 0.125;
  return half_of(bits) * (2 * scale + 1) *
         (ternary_value(entry >> static_cast<unsigned>(2 * (i % 8)) & 3U) + delta);
}

struct IqRule {
  ElementType type;
  double (*weight)(const Bytes& block, int index);
};

class IqRules : public ::testing::TestWithParam<IqRule> {};

// Every byte of a block takes every value with the others random, so every index, sign and scale
// code occurs in every place; half of the blocks have ordinary scales, half any bits.
TEST_P(IqRules, EveryByteMayHaveEveryValue) {
  const ElementType type = GetParam().type;
  std::mt19937 random(static_cast<std::uint32_t>(type));
  Bytes bytes = zero_block(type);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int value = 0; value < 256; value += at % 4 == 0 ? 1 : 3) {
      for (std::uint8_t& byte : bytes) {
        byte = static_cast<std::uint8_t>(random());
      }
      if (value % 2 == 0 && type != ElementType::kIQ1_M) {
        put_half(bytes, 0, kHalfOne);
      }
      bytes[at] = static_cast<std::uint8_t>(value);
      const std::vector<float> got = decoded_block(type, bytes);
      for (int i = 0; i < 256; ++i) {
        const auto wanted = static_cast<float>(GetParam().weight(bytes, i));
        ASSERT_TRUE(same_weight(got[static_cast<std::size_t>(i)], wanted))
            << "weight " << i << " is " << got[static_cast<std::size_t>(i)] << ", wanted " << wanted
            << ", byte " << at << " = " << value;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Iq, IqRules,
    ::testing::Values(IqRule{ElementType::kIQ2_XXS, iq2_xxs}, IqRule{ElementType::kIQ2_XS, iq2_xs},
                      IqRule{ElementType::kIQ2_S, iq2_s}, IqRule{ElementType::kIQ3_XXS, iq3_xxs},
                      IqRule{ElementType::kIQ3_S, iq3_s}, IqRule{ElementType::kIQ1_S, iq1_s},
                      IqRule{ElementType::kIQ1_M, iq1_m}),
    [](const auto& param) { return std::string(element_type_row(param.param.type).name); });

}  // namespace
}  // namespace vindex::decode::testing::iq_blocks_test
