// Checked sums and products at the edges of 64 bits.
#include "core/integers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace vindex::checked_test {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(CheckedTest, SumsAndProductsAtTheEdge) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_FALSE(checked_add(kMax, 1));
  EXPECT_EQ(checked_multiply(1ULL << 32U, (1ULL << 32U) - 1), kMax - (1ULL << 32U) + 1);
  EXPECT_FALSE(checked_multiply(1ULL << 32U, 1ULL << 32U));
}

TEST(CheckedTest, AZeroFactorDoesNotHideAnOverflow) {
  const std::array<std::uint64_t, 3> lie = {1ULL << 40U, 1ULL << 40U, 0};
  EXPECT_FALSE(checked_product(lie));
  const std::array<std::uint64_t, 3> empty = {5, 0, 7};
  EXPECT_EQ(checked_product(empty), 0U);
  EXPECT_EQ(checked_product({}), 1U);
}

TEST(CheckedTest, RoundingUpNearTheTopDoesNotWrap) {
  EXPECT_EQ(checked_round_up(33, 32), 64U);
  EXPECT_EQ(checked_round_up(64, 32), 64U);
  EXPECT_FALSE(checked_round_up(kMax, 32));
}

TEST(CheckedTest, CountsAreSigned) {
  EXPECT_EQ(checked_count(7), 7);
  EXPECT_FALSE(checked_count(kMax));
}

}  // namespace
}  // namespace vindex::checked_test
