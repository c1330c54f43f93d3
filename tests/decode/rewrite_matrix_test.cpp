// Edited weights written back: what did not change keeps its bits, what changed is as near as its
// codes allow, and what cannot be written is refused.
#include "decode/encode/rewrite_matrix.hpp"

#include "conformance_files.hpp"
#include "decode_support.hpp"
#include "rewrite_support.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace vindex::decode::rewrite_matrix_test {
namespace {

/// Whether every weight outside the block of (row, col) has the same bits.
bool others_kept(const EncodedWeights& before, const EncodedWeights& after, std::int64_t row,
                 std::int64_t col) {
  const auto a = before.weights();
  const auto b = after.weights();
  const std::int64_t height = before.encoding.block_rows;
  const std::int64_t width = block_width(before.encoding);
  for (std::int64_t r = 0; r < before.rows; ++r) {
    for (std::int64_t c = 0; c < before.cols; ++c) {
      const auto i = static_cast<std::size_t>(r * before.cols + c);
      const bool inside = r / height == row / height && c / width == col / width;
      if (!inside && !testing::same_weight(a[i], b[i])) {
        return false;
      }
    }
  }
  return true;
}

TEST(RewriteMatrix, UnchangedWeightsOfEveryFormatKeepTheirBytes) {
  for (const SampleShape& shape : testing::sample_shapes(6, 512, 32)) {
    const testing::RandomMatrix random(shape, 7);
    const EncodedMatrix& matrix = random.matrix();
    const std::vector<float> values = testing::decoded(matrix);
    const CodeWindow window = code_window(matrix);
    std::vector<std::byte> codes(static_cast<std::size_t>(window.width * window.height));
    const Companion* scale = matrix.companion(CompanionRole::kScale);
    std::vector<std::byte> scales;
    if (scale != nullptr) {
      scales.assign(scale->bytes.begin(), scale->bytes.end());
    }
    const std::vector<std::byte> scales_before = scales;
    const RewriteCounts counts =
        rewrite_matrix(matrix, values.data(), matrix.cols, codes, scales, kWhere);
    EXPECT_EQ(counts.patched + counts.encoded, 0) << shape.encoding.label;
    EXPECT_GT(counts.kept, 0);
    EXPECT_EQ(scales, scales_before) << shape.encoding.label;
    for (std::int64_t run = 0; run < window.height; ++run) {
      ASSERT_EQ(std::memcmp(codes.data() + run * window.width,
                            matrix.codes + window.offset + run * window.stride,
                            static_cast<std::size_t>(window.width)),
                0)
          << shape.encoding.label;
    }
  }
}

TEST(RewriteMatrix, AWeightSetToZeroKeepsItsNeighboursToTheBit) {
  for (const Encoding& encoding : scaled_encodings()) {
    if (encoding.type == ElementType::kQ4_1 || encoding.type == ElementType::kQ5_1) {
      continue;  // their minimum leaves no code for zero
    }
    const EncodedWeights before = encoded_weights(encoding, 130, 256, normals(130 * 256, 3));
    auto values = before.weights();
    values[131] = 0.0F;
    values[129 * 256] = 0.0F;
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(counts.patched, 2) << encoding.label;
    EXPECT_EQ(counts.encoded, 0) << encoding.label;
    EXPECT_EQ(after.scales, before.scales) << encoding.label;
    EXPECT_EQ(after.weights(), values) << encoding.label;  // a negative scale makes a zero -0
  }
}

TEST(RewriteMatrix, WeightsThatChangePlacesKeepTheirScale) {
  for (const Encoding& encoding : scaled_encodings()) {
    const EncodedWeights before = encoded_weights(encoding, 128, 128, normals(128 * 128, 4));
    auto values = before.weights();
    std::reverse(values.begin() + 32, values.begin() + 64);
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(counts.patched, 1) << encoding.label;
    EXPECT_EQ(after.scales, before.scales) << encoding.label;
    EXPECT_TRUE(testing::same_weights(after.weights(), values)) << encoding.label;
    // And back again: the very bytes.
    EXPECT_EQ(rewritten(after, before.weights()).codes, before.codes) << encoding.label;
  }
}

TEST(RewriteMatrix, AChangedBlockIsThatOfTheEncoder) {
  for (const Encoding& encoding : scaled_encodings()) {
    const std::int64_t rows = 200;
    const std::int64_t cols = 160;
    const EncodedWeights before = encoded_weights(encoding, rows, cols, normals(rows * cols, 5));
    auto values = before.weights();
    const std::int64_t row = 140;
    const std::int64_t col = 137;
    values[static_cast<std::size_t>(row * cols + col)] = 100.0F;
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(counts.patched, 0) << encoding.label;
    EXPECT_EQ(counts.encoded, 1) << encoding.label;
    EXPECT_TRUE(others_kept(before, after, row, col)) << encoding.label;
    // The same block among neighbours that the encoder sees too.
    const auto weights = after.weights();
    const auto wanted = encoded_weights(encoding, rows, cols, values).weights();
    const std::int64_t width = block_width(encoding);
    double errors = 0.0;
    double errors_by_encoder = 0.0;
    for (std::int64_t r = row / encoding.block_rows * encoding.block_rows;
         r < std::min(rows, (row / encoding.block_rows + 1) * encoding.block_rows); ++r) {
      for (std::int64_t c = col / width * width; c < std::min(cols, (col / width + 1) * width);
           ++c) {
        const auto i = static_cast<std::size_t>(r * cols + c);
        const double error = static_cast<double>(weights[i]) - static_cast<double>(values[i]);
        const double by_encoder = static_cast<double>(wanted[i]) - static_cast<double>(values[i]);
        errors += error * error;
        errors_by_encoder += by_encoder * by_encoder;
        if (encoding.scheme != Scheme::kFp8Block) {  // which may have room under a power of two
          ASSERT_EQ(weights[i], wanted[i]) << encoding.label << " " << r << " " << c;
        }
      }
    }
    EXPECT_LE(errors, errors_by_encoder) << encoding.label;
  }
}

/// One weight that grows by a half costs the others of a fp8 block nothing.
TEST(RewriteMatrix, AFp8BlockMakesRoomWithoutMovingItsOtherWeights) {
  const Encoding encoding = fp8_block_encoding(128, 128);
  const EncodedWeights before = encoded_weights(encoding, 128, 128, normals(128 * 128, 6));
  const std::vector<float> old = before.weights();
  auto values = old;
  const auto largest = std::max_element(values.begin(), values.end());
  const float target = *largest *= 1.5F;
  const auto at = static_cast<std::size_t>(largest - values.begin());
  const std::vector<float> after = rewritten(before, values).weights();
  EXPECT_NEAR(after[at], target, 0.0625F * target);
  std::size_t moved = 0;
  for (std::size_t i = 0; i < old.size(); ++i) {
    moved += i != at && after[i] != old[i] ? 1 : 0;
    EXPECT_NEAR(after[i], values[i], 0.0625F * std::fabs(values[i]) + 1e-4F) << i;
  }
  EXPECT_LT(moved, old.size() / 100);
}

TEST(RewriteMatrix, PlainNumbersChangeOneByOne) {
  const std::vector<float> weights = {1.0F, -0.0F, 0.0F, 1e-40F, -2.5F, 65504.0F};
  for (const ElementType type :
       {ElementType::kF64, ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    const EncodedWeights before = encoded_weights(plain_encoding(type), 2, 3, weights);
    auto values = before.weights();
    values[1] = 0.0F;
    values[2] = -0.0F;
    values[4] = 0.3F;
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(counts.kept, 3);
    EXPECT_EQ(counts.encoded, 3);
    const auto got = after.weights();
    EXPECT_FALSE(std::signbit(got[1]));
    EXPECT_TRUE(std::signbit(got[2]));
    EXPECT_EQ(got[4], encoded_weights(plain_encoding(type), 1, 1, {0.3F}).weights()[0]);
    EXPECT_EQ(got[3], before.weights()[3]);
  }
}

TEST(RewriteMatrix, DoublesThatDidNotChangeKeepWhatAFloatCannotHold) {
  EncodedWeights before{plain_encoding(ElementType::kF64), 1, 2, std::vector<std::byte>(16)};
  const double third = 1.0 / 3.0;
  std::memcpy(before.codes.data(), &third, 8);
  std::memcpy(before.codes.data() + 8, &third, 8);
  auto values = before.weights();
  values[1] = 2.0F;
  const EncodedWeights after = rewritten(before, values);
  double first = 0.0;
  std::memcpy(&first, after.codes.data(), 8);
  EXPECT_EQ(first, third);
  EXPECT_EQ(after.weights()[1], 2.0F);
}

TEST(RewriteMatrix, AnFp8BlockKeepsItsScaleWhileItsCodesHoldTheNewWeights) {
  const EncodedWeights before =
      encoded_weights(fp8_block_encoding(128, 128), 128, 128, normals(128 * 128, 6));
  auto values = before.weights();
  values[77] = 0.123F;
  RewriteCounts counts;
  const EncodedWeights after = rewritten(before, values, &counts);
  EXPECT_EQ(counts.patched, 1);
  EXPECT_EQ(after.scales, before.scales);
  const auto got = after.weights();
  EXPECT_NEAR(got[77], 0.123F, 0.123F / 16);
  values[77] = got[77];
  EXPECT_TRUE(testing::same_weights(got, values));
  // Floating-point codes are as fine a binade further down, and coarse sixteen down.
  for (const float shrunk : {0.4F, 0x1p-16F}) {
    std::vector<float> less = normals(128 * 128, 12);
    for (float& value : less) {
      value *= shrunk;
    }
    rewritten(before, less, &counts);
    EXPECT_EQ(counts.patched, shrunk == 0.4F ? 1 : 0);
    EXPECT_EQ(counts.encoded, shrunk == 0.4F ? 0 : 1);
  }
}

TEST(RewriteMatrix, RowSlabsTogetherAreTheWholeMatrix) {
  for (const Encoding& encoding : scaled_encodings()) {
    const EncodedWeights before = encoded_weights(encoding, 300, 256, normals(300 * 256, 8));
    auto values = before.weights();
    for (std::size_t i = 0; i < values.size(); i += 97) {
      values[i] += 0.5F;
    }
    const EncodedWeights whole = rewritten(before, values);
    EncodedWeights slabs = before;
    const auto row_bytes = static_cast<std::size_t>(before.view().row_stride_bytes);
    for (std::int64_t first = 0; first < 300; first += 128) {
      const std::int64_t count = std::min<std::int64_t>(128, 300 - first);
      const auto at = static_cast<std::size_t>(first) * row_bytes;
      rewrite_matrix(
          row_slab(before.view(), first, count), values.data() + first * 256, 256,
          std::span(slabs.codes).subspan(at, static_cast<std::size_t>(count) * row_bytes),
          slabs.scales, kWhere);
    }
    EXPECT_EQ(slabs.codes, whole.codes) << encoding.label;
    EXPECT_EQ(slabs.scales, whole.scales) << encoding.label;
  }
}

std::string error_of_change(const EncodedWeights& before, float value) {
  auto values = before.weights();
  values[33] = value;
  return vindex::testing::error_of([&] { rewritten(before, values); });
}

TEST(RewriteMatrix, WhatNoEncodingHoldsIsRefused) {
  std::vector<Encoding> encodings = scaled_encodings();
  for (const ElementType type :
       {ElementType::kF64, ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    encodings.push_back(plain_encoding(type));
  }
  for (const Encoding& encoding : encodings) {
    const EncodedWeights before = encoded_weights(encoding, 2, 256, normals(512, 9));
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(error_of_change(before, value), "E-ENCODE-VALUE") << encoding.label;
    }
  }
  const float huge = 3e38F;
  EXPECT_EQ(
      error_of_change(encoded_weights(plain_encoding(ElementType::kF16), 1, 64, normals(64, 1)),
                      65520.0F),
      "E-ENCODE-VALUE");
  EXPECT_EQ(
      error_of_change(encoded_weights(plain_encoding(ElementType::kBF16), 1, 64, normals(64, 1)),
                      std::numeric_limits<float>::max()),
      "E-ENCODE-VALUE");
  for (const ElementType type : {ElementType::kQ4_0, ElementType::kQ4_1, ElementType::kQ5_0,
                                 ElementType::kQ5_1, ElementType::kQ8_0}) {
    EXPECT_EQ(error_of_change(encoded_weights(plain_encoding(type), 1, 64, normals(64, 1)), huge),
              "E-ENCODE-VALUE");
  }
}

TEST(RewriteMatrix, AChangeWithoutAnEncoderIsRefusedByName) {
  for (const SampleShape& shape : testing::sample_shapes(6, 512, 32)) {
    const testing::RandomMatrix random(shape, 11);
    const EncodedMatrix& matrix = random.matrix();
    if (is_rewritable(matrix)) {
      continue;
    }
    std::vector<float> values = testing::decoded(matrix);
    values[5] = 17.25F;
    const CodeWindow window = code_window(matrix);
    std::vector<std::byte> codes(static_cast<std::size_t>(window.width * window.height));
    const Companion* scale = matrix.companion(CompanionRole::kScale);
    std::vector<std::byte> scales(scale == nullptr ? 0 : scale->bytes.size());
    try {
      rewrite_matrix(matrix, values.data(), matrix.cols, codes, scales, kWhere);
      FAIL() << shape.encoding.label;
    } catch (const ConfigurationError& error) {
      EXPECT_EQ(error.id(), "E-ENCODE-TYPE");
      EXPECT_NE(std::string(error.what()).find(shape.encoding.label), std::string::npos);
    }
  }
}

TEST(RewriteMatrix, EveryEncoderServesEdits) {
  for (const Encoding& encoding : scaled_encodings()) {
    EXPECT_TRUE(is_rewritable(encoded_weights(encoding, 2, 256, normals(512, 2)).view()))
        << encoding.label;
  }
}

}  // namespace
}  // namespace vindex::decode::rewrite_matrix_test
