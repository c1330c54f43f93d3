// Encoders: every code comes back, ties go to even, losses are as stated.
#include "decode/encode/encode.hpp"

#include "core/integers.hpp"
#include "core/portable.hpp"
#include "synth/random.hpp"
#include "tests/support/encoded_weights.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

namespace vindex::decode::encode_test {
namespace {

using testing::encoded_weights;
using testing::EncodedWeights;

std::vector<float> normals(std::int64_t count, std::uint64_t key = 1) {
  std::vector<float> values(static_cast<std::size_t>(count));
  synth::fill_normals(key, synth::Stream::kEntries, values);
  return values;
}

float scale_at(const EncodedWeights& encoded, std::int64_t row, std::int64_t col) {
  const std::int64_t blocks = ceil_divide(encoded.cols, encoded.encoding.block_cols);
  const std::int64_t index =
      row / encoded.encoding.block_rows * blocks + col / encoded.encoding.block_cols;
  if (encoded.encoding.scheme == Scheme::kFp8Block) {
    float scale = 0.0F;
    std::memcpy(&scale, encoded.scales.data() + index * 4, 4);
    return scale;
  }
  std::uint16_t code = 0;
  std::memcpy(&code, encoded.scales.data() + index * 2, 2);
  return bits_as<float>(static_cast<std::uint32_t>(code) << 16U);
}

TEST(EncodeScalar, EveryBf16ComesBack) {
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto value = bits_as<float>(code << 16U);
    if (std::isnan(value)) {
      EXPECT_TRUE(
          std::isnan(bits_as<float>(static_cast<std::uint32_t>(encode_bf16(value)) << 16U)));
    } else {
      ASSERT_EQ(encode_bf16(value), code);
    }
  }
}

TEST(EncodeScalar, Bf16TiesGoToEven) {
  EXPECT_EQ(encode_bf16(bits_as<float>(0x3F808000U)), 0x3F80U);
  EXPECT_EQ(encode_bf16(bits_as<float>(0x3F818000U)), 0x3F82U);
  EXPECT_EQ(encode_bf16(bits_as<float>(0x3F808001U)), 0x3F81U);
  EXPECT_EQ(encode_bf16(std::numeric_limits<float>::max()), 0x7F80U);
  // A NaN with its payload in the dropped half stays a NaN.
  EXPECT_EQ(encode_bf16(bits_as<float>(0x7F800001U)) & 0x7FFFU, 0x7FC0U);
}

TEST(EncodeScalar, EveryHalfComesBack) {
  Encoding f16 = plain_encoding(ElementType::kF16);
  std::vector<std::byte> codes(2 * 0x10000);
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    const auto half = static_cast<std::uint16_t>(code);
    std::memcpy(codes.data() + 2 * code, &half, 2);
  }
  EncodedMatrix matrix;
  matrix.encoding = &f16;
  matrix.rows = 1;
  matrix.cols = 0x10000;
  matrix.codes = codes.data();
  matrix.row_stride_bytes = 2 * 0x10000;
  std::vector<float> values(0x10000);
  decode_matrix(matrix, values.data(), 0x10000);
  for (std::uint32_t code = 0; code < 0x10000U; ++code) {
    if (std::isnan(values[code])) {
      EXPECT_EQ(encode_f16(values[code]) & 0x7C00U, 0x7C00U);
      EXPECT_NE(encode_f16(values[code]) & 0x3FFU, 0U);
    } else {
      ASSERT_EQ(encode_f16(values[code]), code);
    }
  }
}

TEST(EncodeScalar, HalfRoundsToNearestEven) {
  EXPECT_EQ(encode_f16(1.0F + 0x1p-11F), 0x3C00U);
  EXPECT_EQ(encode_f16(1.0F + 0x1.8p-10F), 0x3C02U);
  EXPECT_EQ(encode_f16(65519.996F), 0x7BFFU);
  EXPECT_EQ(encode_f16(65520.0F), 0x7C00U);
  EXPECT_EQ(encode_f16(0x1p-25F), 0x0000U);
  EXPECT_EQ(encode_f16(0x1.8p-24F), 0x0002U);
  EXPECT_EQ(encode_f16(-0x1.004p-15F), 0x8200U);
}

TEST(EncodeScalar, E4m3CodesComeBackAndMidpointsGoToEven) {
  const auto value_of = [](int code) {
    const int exponent = code >> 3;
    const int mantissa = code & 7;
    return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                         : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  };
  for (int code = 0; code <= 0x7E; ++code) {
    ASSERT_EQ(encode_e4m3(value_of(code)), code);
    ASSERT_EQ(encode_e4m3(-value_of(code)), code | 0x80);
    if (code < 0x7E) {
      const float middle = (value_of(code) + value_of(code + 1)) / 2.0F;
      ASSERT_EQ(encode_e4m3(middle), code % 2 == 0 ? code : code + 1);
      ASSERT_EQ(encode_e4m3(std::nextafter(middle, 1000.0F)), code + 1);
      ASSERT_EQ(encode_e4m3(std::nextafter(middle, 0.0F)), code);
    }
  }
  EXPECT_EQ(encode_e4m3(1e6F), 0x7E);
  EXPECT_EQ(encode_e4m3(std::numeric_limits<float>::quiet_NaN()) & 0x7F, 0x7F);
}

TEST(EncodeMatrix, LossIsWhatDecodingShows) {
  const std::int64_t rows = 130;
  const std::int64_t cols = 160;
  const auto values = normals(rows * cols);
  for (const Encoding& encoding :
       {plain_encoding(ElementType::kF32), plain_encoding(ElementType::kF16),
        plain_encoding(ElementType::kBF16), plain_encoding(ElementType::kQ8_0),
        fp8_block_encoding(128, 128), packed_int_encoding(4, 32)}) {
    SCOPED_TRACE(encoding.label);
    const EncodedWeights encoded = encoded_weights(encoding, rows, cols, values);
    const auto decoded = encoded.weights();
    double norm = 0.0;
    double error = 0.0;
    double worst = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(decoded[i]) - static_cast<double>(values[i]);
      norm += static_cast<double>(values[i]) * static_cast<double>(values[i]);
      error += difference * difference;
      worst = std::max(worst, std::abs(difference));
    }
    EXPECT_NEAR(encoded.loss.squared_norm / norm, 1.0, 1e-12);
    EXPECT_NEAR(encoded.loss.squared_error, error, 1e-9 * error);
    // Q8_0 stores its scale as a half: 127 times up to 2^-11 of a step more.
    const double room = encoding.type == ElementType::kQ8_0 ? 1.13 : 1.03;
    EXPECT_LE(worst, 0.5 * encoded.loss.largest_step * room);
    if (encoding.type != ElementType::kF32) {
      EXPECT_GT(worst, 0.25 * encoded.loss.largest_step);
    }
  }
}

TEST(EncodeMatrix, Fp8StaysWithinHalfAStepOfItsOwnBinade) {
  const std::int64_t rows = 200;
  const std::int64_t cols = 150;
  const auto values = normals(rows * cols, 7);
  const EncodedWeights encoded = encoded_weights(fp8_block_encoding(128, 128), rows, cols, values);
  ASSERT_EQ(encoded.scales.size(), 2U * 2U * 4U);
  const auto decoded = encoded.weights();
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const double value = values[static_cast<std::size_t>(i)];
    const double scale = scale_at(encoded, i / cols, i % cols);
    const double step = scale * std::ldexp(1.0, std::max(-6, std::ilogb(value / scale)) - 3);
    ASSERT_LE(std::abs(decoded[static_cast<std::size_t>(i)] - value), step * 0.5000001) << i;
  }
}

TEST(EncodeMatrix, EdgeBlocksHaveTheirOwnScales) {
  std::vector<float> values(static_cast<std::size_t>(129 * 130), 1.0F);
  values[129 * 130 - 1] = 896.0F;
  const EncodedWeights encoded = encoded_weights(fp8_block_encoding(128, 128), 129, 130, values);
  EXPECT_EQ(scale_at(encoded, 0, 0), 1.0F / 448.0F);
  EXPECT_EQ(scale_at(encoded, 0, 128), 1.0F / 448.0F);
  EXPECT_EQ(scale_at(encoded, 128, 0), 1.0F / 448.0F);
  EXPECT_EQ(scale_at(encoded, 128, 129), 2.0F);
  EXPECT_EQ(encoded.weights().back(), 896.0F);
}

TEST(EncodeMatrix, SecondGroupUsesSecondScale) {
  std::vector<float> values(64, 0.0F);
  values[0] = 7.0F;
  values[1] = -2.6F;
  values[33] = -14.0F;
  values[34] = 3.0F;
  const EncodedWeights encoded = encoded_weights(packed_int_encoding(4, 32), 1, 64, values);
  EXPECT_EQ(scale_at(encoded, 0, 0), 1.0F);
  EXPECT_EQ(scale_at(encoded, 0, 32), 2.0F);
  // Offset binary, low nibble first: 15, 5, then zeros as 8.
  EXPECT_EQ(std::to_integer<int>(encoded.codes[0]), 0x5F);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[1]), 0x88);
  const auto decoded = encoded.weights();
  EXPECT_EQ(decoded[0], 7.0F);
  EXPECT_EQ(decoded[1], -3.0F);
  EXPECT_EQ(decoded[33], -14.0F);
  EXPECT_EQ(decoded[34], 4.0F);  // 1.5 steps: the tie goes to the even code
}

TEST(EncodeMatrix, Int4NeverUsesMinusEight) {
  const auto values = normals(64 * 64, 3);
  const EncodedWeights encoded = encoded_weights(packed_int_encoding(4, 32), 64, 64, values);
  for (const std::byte byte : encoded.codes) {
    EXPECT_NE(std::to_integer<int>(byte) & 15, 0);
    EXPECT_NE(std::to_integer<int>(byte) >> 4, 0);
  }
}

TEST(EncodeMatrix, Q8BlockIsGgmls) {
  std::vector<float> values(32, 0.0F);
  values[0] = 127.0F;
  values[1] = -2.5F;
  values[2] = 2.5F;
  values[31] = 0.4999F;
  const EncodedWeights encoded = encoded_weights(plain_encoding(ElementType::kQ8_0), 1, 32, values);
  ASSERT_EQ(encoded.codes.size(), 34U);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[0]), 0x00);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[1]), 0x3C);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[2]), 127);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[3]), 256 - 3);  // ties away from zero
  EXPECT_EQ(std::to_integer<int>(encoded.codes[4]), 3);
  EXPECT_EQ(std::to_integer<int>(encoded.codes[33]), 0);
}

TEST(EncodeMatrix, ZeroMatrixDecodesToZeros) {
  const std::vector<float> zeros(static_cast<std::size_t>(64 * 64), 0.0F);
  for (const Encoding& encoding :
       {plain_encoding(ElementType::kBF16), plain_encoding(ElementType::kQ8_0),
        fp8_block_encoding(128, 128), packed_int_encoding(4, 32)}) {
    const EncodedWeights encoded = encoded_weights(encoding, 64, 64, zeros);
    EXPECT_EQ(encoded.weights(), zeros) << encoding.label;
    EXPECT_EQ(encoded.loss.relative_error(), 0.0);
  }
}

TEST(EncodeMatrix, StrideSkipsWhatLiesBetweenRows) {
  const auto values = normals(10 * 40);
  std::vector<float> dense;
  for (std::size_t row = 0; row < 10; ++row) {
    dense.insert(dense.end(), values.begin() + static_cast<std::ptrdiff_t>(row * 40),
                 values.begin() + static_cast<std::ptrdiff_t>(row * 40 + 32));
  }
  for (const Encoding& encoding :
       {plain_encoding(ElementType::kF32), plain_encoding(ElementType::kQ8_0),
        fp8_block_encoding(8, 8), packed_int_encoding(4, 32)}) {
    const EncodedWeights expected = encoded_weights(encoding, 10, 32, dense);
    std::vector<std::byte> codes(expected.codes.size());
    std::vector<std::byte> scales(expected.scales.size());
    encode_matrix(encoding, values.data(), 10, 32, 40, codes, scales);
    EXPECT_EQ(codes, expected.codes) << encoding.label;
    EXPECT_EQ(scales, expected.scales) << encoding.label;
  }
}

TEST(EncodeMatrix, WeightsThatAreNotFiniteShowInTheNorm) {
  auto values = normals(64);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(
      encoded_weights(fp8_block_encoding(128, 128), 2, 32, values).loss.squared_norm));
}

TEST(EncodedSize, RowsMustFillGroups) {
  EXPECT_FALSE(encoded_size(packed_int_encoding(4, 32), 8, 48));
  EXPECT_FALSE(encoded_size(plain_encoding(ElementType::kQ8_0), 8, 33));
  EXPECT_FALSE(encoded_size(plain_encoding(ElementType::kQ4_K), 8, 256));
  EXPECT_FALSE(encoded_size(plain_encoding(ElementType::kF32), std::int64_t{1} << 40,
                            std::int64_t{1} << 40));
  EXPECT_EQ(encoded_size(fp8_block_encoding(128, 128), 192, 256)->scale_bytes, 16U);
}

}  // namespace
}  // namespace vindex::decode::encode_test
