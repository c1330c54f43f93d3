// Moments by hand, against two-pass long double sums, merged in pieces, and with the same bits at
// every SIMD level.
#include "decode/moments.hpp"

#include "decode_support.hpp"

#include <limits>

namespace vindex::decode::testing::moments_test {
namespace {

struct Exact {
  long double mean = 0, m2 = 0, m3 = 0, m4 = 0, squares = 0;
};

Exact exact_moments(const std::vector<float>& values) {
  Exact out;
  for (const float w : values) {
    out.mean += w;
    out.squares += static_cast<long double>(w) * w;
  }
  out.mean /= static_cast<long double>(values.size());
  for (const float w : values) {
    const long double d = w - out.mean;
    out.m2 += d * d;
    out.m3 += d * d * d;
    out.m4 += d * d * d * d;
  }
  return out;
}

std::vector<float> normal_values(std::size_t count, float mean, float deviation,
                                 std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) {
    value = normal(random);
  }
  return values;
}

void expect_close(const Moments& got, const std::vector<float>& values) {
  const Exact wanted = exact_moments(values);
  const auto near = [](double a, long double b, double relative, long double scale) {
    return std::abs(static_cast<long double>(a) - b) <= relative * scale;
  };
  const long double sd = std::sqrt(wanted.m2 / static_cast<long double>(values.size()));
  EXPECT_EQ(got.count, static_cast<std::int64_t>(values.size()));
  EXPECT_TRUE(near(got.sum_squares, wanted.squares, 1e-14, wanted.squares));
  EXPECT_TRUE(near(got.mean, wanted.mean, 1e-13, sd + std::abs(wanted.mean)));
  EXPECT_TRUE(near(got.m2, wanted.m2, 1e-12, wanted.m2));
  EXPECT_TRUE(near(got.m3, wanted.m3, 1e-12, sd * wanted.m2));
  EXPECT_TRUE(near(got.m4, wanted.m4, 1e-12, wanted.m4));
}

Moments moments_of_row(const std::vector<float>& values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return moments_of(values.data(), 1, count, count);
}

TEST(Moments, FourValuesByHand) {
  const Moments m = moments_of_row({1.0F, 2.0F, 0.0F, 5.0F});
  EXPECT_EQ(m.count, 4);
  EXPECT_EQ(m.zeros, 1);
  EXPECT_EQ(m.mean, 2.0);
  EXPECT_EQ(m.m2, 14.0);           // 1 + 0 + 4 + 9
  EXPECT_EQ(m.m3, 18.0);           // -1 + 0 - 8 + 27
  EXPECT_EQ(m.m4, 98.0);           // 1 + 0 + 16 + 81
  EXPECT_EQ(m.sum_squares, 30.0);  // 1 + 4 + 0 + 25
  EXPECT_EQ(m.min, 0.0);
  EXPECT_EQ(m.max, 5.0);
  EXPECT_EQ(m.max_abs(), 5.0);
  EXPECT_EQ(standard_deviation(m), std::sqrt(3.5));
  EXPECT_EQ(excess_kurtosis(m), 4.0 * 98.0 / (14.0 * 14.0) - 3.0);
}

TEST(Moments, NothingIsNaN) {
  const Moments m = moments_of(nullptr, 0, 0, 0);
  EXPECT_EQ(m.count, 0);
  EXPECT_EQ(m.max_abs(), 0.0);
  EXPECT_TRUE(std::isnan(standard_deviation(m)));
  EXPECT_TRUE(std::isnan(excess_kurtosis(m)));
}

TEST(Moments, EqualValuesHaveNoDeviation) {
  const Moments m = moments_of_row(std::vector<float>(10000, 0.3F));
  EXPECT_EQ(m.m2, 0.0);
  EXPECT_NEAR(m.mean, static_cast<double>(0.3F), 1e-15);
}

TEST(Moments, AgreeWithLongDoubleSums) {
  for (const std::size_t count : {1U, 7U, 8U, 9U, 4095U, 4096U, 4097U, 300001U}) {
    SCOPED_TRACE(count);
    expect_close(moments_of_row(normal_values(count, 0.0F, 0.02F, 1)),
                 normal_values(count, 0.0F, 0.02F, 1));
  }
}

TEST(Moments, AMeanFarFromZeroDoesNotCancel) {
  const std::vector<float> values = normal_values(100000, 1.0F, 0.001F, 2);
  expect_close(moments_of_row(values), values);
}

TEST(Moments, AnOutlierBeforeSmallValuesDoesNotSpoilTheSum) {
  std::vector<float> values = normal_values(100000, 0.0F, 0.02F, 3);
  values[10] = 1e6F;
  expect_close(moments_of_row(values), values);
}

TEST(Moments, NonfiniteValuesAreCountedAndLeftOut) {
  std::vector<float> values = normal_values(9000, 0.0F, 1.0F, 4);
  std::vector<float> finite = values;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  values.insert(values.begin() + 5000, {kInfinity, -kInfinity, std::nanf("")});
  const Moments m = moments_of_row(values);
  EXPECT_EQ(m.nonfinite, 3);
  expect_close(m, finite);
  const Moments none = moments_of_row({kInfinity, std::nanf("")});
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(none.nonfinite, 2);
  EXPECT_TRUE(std::isnan(standard_deviation(none)));
}

TEST(Moments, ZerosOfBothSignsAreCountedInTailsToo) {
  std::vector<float> values(21, 1.0F);
  values[3] = 0.0F;
  values[16] = -0.0F;
  EXPECT_EQ(moments_of_row(values).zeros, 2);
}

TEST(Moments, GapsBetweenRowsAreNotRead) {
  const std::vector<float> values = normal_values(17 * 33, 0.1F, 1.0F, 5);
  std::vector<float> spread(17 * 40, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t row = 0; row < 17; ++row) {
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(row * 33), 33,
                spread.begin() + static_cast<std::ptrdiff_t>(row * 40));
  }
  const Moments a = moments_of(values.data(), 17, 33, 33);
  const Moments b = moments_of(spread.data(), 17, 33, 40);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0) << "the stride is no part of the result";
  expect_close(a, values);
}

TEST(Moments, EveryLevelGivesTheSameBits) {
  for (const std::int64_t cols : {1, 5, 64, 1003}) {
    const std::vector<float> values =
        normal_values(static_cast<std::size_t>(61 * cols), 0.5F, 2.0F, 6);
    const Moments wanted = moments_of_at(SimdLevel::kBaseline, values.data(), 61, cols, cols);
    for (const SimdLevel level : supported_levels()) {
      const Moments got = moments_of_at(level, values.data(), 61, cols, cols);
      EXPECT_EQ(std::memcmp(&got, &wanted, sizeof got), 0) << simd_level_name(level);
    }
  }
}

TEST(Moments, MergedSlicesAreTheWhole) {
  const std::vector<float> values = normal_values(50000, 3.0F, 0.5F, 7);
  const std::vector<float> first(values.begin(), values.begin() + 12345);
  const std::vector<float> second(values.begin() + 12345, values.end());
  expect_close(merge(moments_of_row(first), moments_of_row(second)), values);
  const Moments alone = moments_of_row(first);
  const Moments with_nothing = merge(alone, Moments{});
  EXPECT_EQ(with_nothing.m4, alone.m4);
  EXPECT_EQ(with_nothing.mean, alone.mean);
}

}  // namespace
}  // namespace vindex::decode::testing::moments_test
