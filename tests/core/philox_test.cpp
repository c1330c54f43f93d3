// Philox against the known answers of Random123.
#include "core/philox.hpp"

#include <gtest/gtest.h>

namespace vindex::philox_test {
namespace {

void expect_block(const PhiloxBlock& block, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                  std::uint32_t d) {
  EXPECT_EQ(block.word[0], a);
  EXPECT_EQ(block.word[1], b);
  EXPECT_EQ(block.word[2], c);
  EXPECT_EQ(block.word[3], d);
}

// Known answers of Random123 (kat_vectors, philox 4x32 10).
TEST(PhiloxTest, KnownAnswers) {
  expect_block(philox4x32_10({{0, 0, 0, 0}}, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  const std::uint32_t ones = 0xffffffff;
  expect_block(philox4x32_10({{ones, ones, ones, ones}}, ~0ULL), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
               0x6d5451fd);
  expect_block(
      philox4x32_10({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
      0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(PhiloxTest, ADrawIsTheUpperHalfOfTheCounter) {
  const PhiloxBlock wanted = philox4x32_10({{7, 1, 0x89abcdef, 0x01234567}}, 42);
  const PhiloxBlock got = philox_block(42, 0x100000007, 0x0123456789abcdef);
  expect_block(got, wanted.word[0], wanted.word[1], wanted.word[2], wanted.word[3]);
  EXPECT_EQ(philox_bit(42, 0x80000038FU, 3),
            (philox_block(42, 0x10000007U, 3).word[0] >> 15U & 1U) != 0);
}

TEST(PhiloxTest, BitsRunThroughTheWordsInOrder) {
  const PhiloxBlock block = philox_block(42, 7);
  for (std::uint64_t bit = 0; bit < 128; ++bit) {
    EXPECT_EQ(philox_bit(42, 7 * 128 + bit), (block.word[bit / 32] >> (bit % 32) & 1U) != 0) << bit;
  }
}

}  // namespace
}  // namespace vindex::philox_test
