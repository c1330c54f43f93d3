// Every half, bfloat16 and 8-bit code against the formula of its standard, computed with ldexp in
// double, at every SIMD level; integers and doubles at their rounding edges.
#include "decode_support.hpp"

#include <array>
#include <limits>

namespace vindex::decode::testing::float_formats_test {
namespace {

// Value of a small IEEE-like float: sign, `exponent_bits`, `mantissa_bits`, with infinity or not.
double by_formula(std::uint32_t code, int exponent_bits, int mantissa_bits, bool has_infinity) {
  const std::uint32_t mantissa = code & ((1U << mantissa_bits) - 1U);
  const std::uint32_t exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1U);
  const std::uint32_t top = (1U << exponent_bits) - 1U;
  const bool negative = ((code >> (exponent_bits + mantissa_bits)) & 1U) != 0U;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double value = 0.0;
  if (has_infinity && exponent == top) {
    value = mantissa == 0U ? std::numeric_limits<double>::infinity() : std::nan("");
  } else if (!has_infinity && exponent == top && mantissa == (1U << mantissa_bits) - 1U) {
    value = std::nan("");
  } else if (exponent == 0U) {
    value = std::ldexp(static_cast<double>(mantissa), 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(static_cast<double>(mantissa | (1U << mantissa_bits)),
                       static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -value : value;
}

// All codes of a type as one row, decoded at every level and compared with `formula`.
template <typename Code, typename Formula>
void expect_all_codes(ElementType type, std::size_t count, Formula formula) {
  std::vector<Code> codes(count);
  std::vector<float> wanted(count);
  for (std::size_t code = 0; code < count; ++code) {
    codes[code] = static_cast<Code>(code);
    wanted[code] = static_cast<float>(formula(static_cast<std::uint32_t>(code)));
  }
  const Encoding encoding = plain_encoding(type);
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 1;
  matrix.cols = static_cast<std::int64_t>(count);
  matrix.codes = reinterpret_cast<const std::byte*>(codes.data());
  matrix.row_stride_bytes = static_cast<std::int64_t>(count * sizeof(Code));
  for (const SimdLevel level : supported_levels()) {
    EXPECT_TRUE(same_weights(decoded_at(level, matrix), wanted)) << simd_level_name(level);
  }
  EXPECT_TRUE(same_weights(decoded_one_by_one(matrix), wanted));
}

TEST(FloatFormats, EveryHalf) {
  expect_all_codes<std::uint16_t>(ElementType::kF16, 65536,
                                  [](auto code) { return by_formula(code, 5, 10, true); });
}

TEST(FloatFormats, EveryBfloat16) {
  expect_all_codes<std::uint16_t>(ElementType::kBF16, 65536,
                                  [](auto code) { return by_formula(code, 8, 7, true); });
}

TEST(FloatFormats, EveryE4M3) {
  expect_all_codes<std::uint8_t>(ElementType::kF8E4M3, 256,
                                 [](auto code) { return by_formula(code, 4, 3, false); });
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7F)));
  EXPECT_TRUE(std::isnan(e4m3_to_float(0xFF)));
  EXPECT_EQ(e4m3_to_float(0x7E), 448.0F);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9F);
}

TEST(FloatFormats, EveryE5M2) {
  expect_all_codes<std::uint8_t>(ElementType::kF8E5M2, 256,
                                 [](auto code) { return by_formula(code, 5, 2, true); });
}

TEST(FloatFormats, EveryE8M0) {
  for (std::uint32_t code = 0; code < 255; ++code) {
    EXPECT_EQ(e8m0_to_float(static_cast<std::uint8_t>(code)),
              static_cast<float>(std::ldexp(1.0, static_cast<int>(code) - 127)))
        << code;
  }
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

template <typename Stored>
float decoded_number(ElementType type, Stored value) {
  const Encoding encoding = plain_encoding(type);
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 1;
  matrix.cols = 1;
  matrix.codes = reinterpret_cast<const std::byte*>(&value);
  matrix.row_stride_bytes = sizeof value;
  return decoded(matrix)[0];
}

TEST(FloatFormats, WideNumbersRoundToNearestEven) {
  EXPECT_EQ(decoded_number(ElementType::kI32, std::int32_t{16777217}), 16777216.0F);
  EXPECT_EQ(decoded_number(ElementType::kI32, std::int32_t{16777219}), 16777220.0F);
  EXPECT_EQ(decoded_number(ElementType::kI64, std::int64_t{-16777217}), -16777216.0F);
  EXPECT_EQ(decoded_number(ElementType::kU64, ~std::uint64_t{0}), 0x1p64F);
  EXPECT_EQ(decoded_number(ElementType::kF64, 1.0 + 0x1p-24), 1.0F);
  EXPECT_EQ(decoded_number(ElementType::kF64, 1.0 + 0x1.8p-23), 1.0F + 0x1p-22F);
}

TEST(FloatFormats, DoublesBeyondFloatBecomeInfinite) {
  EXPECT_EQ(decoded_number(ElementType::kF64, 1e300), std::numeric_limits<float>::infinity());
  EXPECT_EQ(decoded_number(ElementType::kF64, -1e300), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(decoded_number(ElementType::kF64, 0x1p-149), 0x1p-149F);
}

// I64 and U64 have vector instructions only at some levels: random values at all of them.
TEST(FloatFormats, SixtyFourBitIntegersRoundAlikeAtEveryLevel) {
  for (const ElementType type : {ElementType::kI64, ElementType::kU64, ElementType::kU32}) {
    const RandomMatrix random(plain_encoding(type), 3, 1001, 11);
    const std::vector<float> wanted = decoded_one_by_one(random.matrix());
    for (const SimdLevel level : supported_levels()) {
      EXPECT_TRUE(same_weights(decoded_at(level, random.matrix()), wanted));
    }
  }
}

}  // namespace
}  // namespace vindex::decode::testing::float_formats_test
