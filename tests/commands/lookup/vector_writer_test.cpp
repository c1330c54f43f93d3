// Rows as a file of gate vectors has them: the nearest value of the type, what rounding took, and
// weights that no value is near.
#include "commands/lookup/store/vector_writer.hpp"

#include "commands/lookup/store/gate_vector_layout.hpp"
#include "core/digest.hpp"
#include "decode/formats/float_formats.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace vindex::commands::vector_writer_test {
namespace {

using decode::ElementType;

std::vector<std::uint16_t> encoded(const std::vector<float>& row, ElementType type,
                                   EncodedRow* out = nullptr) {
  std::vector<std::uint16_t> bits(row.size());
  const EncodedRow what = encode_row(row, type, std::as_writable_bytes(std::span(bits)), "W");
  if (out != nullptr) {
    *out = what;
  }
  return bits;
}

float decoded(std::uint16_t bits, ElementType type) {
  return type == ElementType::kF16 ? decode::half_to_float(bits) : decode::bfloat16_to_float(bits);
}

/// The nearest of all finite values of the type; of two as near the one with an even last bit.
std::uint16_t nearest(float value, ElementType type) {
  std::uint16_t best = 0;
  double distance = std::numeric_limits<double>::infinity();
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto candidate = static_cast<std::uint16_t>(bits);
    const float one = decoded(candidate, type);
    if (!std::isfinite(one) || std::signbit(one) != std::signbit(value)) {
      continue;
    }
    const double off = std::abs(static_cast<double>(one) - static_cast<double>(value));
    if (off < distance || (off == distance && candidate % 2 == 0)) {
      best = candidate;
      distance = off;
    }
  }
  return best;
}

TEST(EncodeRow, IsTheNearestValueOfTheType) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::vector<float> row = {0.0F,        -0.0F,       1.0F,  1.00048828125F, 1.00146484375F,
                            1.00390625F, 1.01171875F, 3e-8F, -6e-8F,         65504.0F};
  for (int i = 0; i < 20; ++i) {
    row.push_back(normal(random) * std::exp(3.0F * normal(random)));
  }
  for (const ElementType type : {ElementType::kF16, ElementType::kBF16}) {
    EncodedRow what;
    const std::vector<std::uint16_t> bits = encoded(row, type, &what);
    double squares = 0.0, errors = 0.0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(bits[i], nearest(row[i], type)) << row[i];
      const double error = static_cast<double>(decoded(bits[i], type)) - row[i];
      squares += static_cast<double>(row[i]) * row[i];
      errors += error * error;
    }
    EXPECT_DOUBLE_EQ(what.squares, squares);
    EXPECT_DOUBLE_EQ(what.errors, errors);
  }
  std::vector<float> same(row.size());
  const EncodedRow what =
      encode_row(row, ElementType::kF32, std::as_writable_bytes(std::span(same)), "W");
  EXPECT_EQ(std::memcmp(same.data(), row.data(), row.size() * sizeof(float)), 0);
  EXPECT_EQ(what.errors, 0.0);
}

TEST(EncodeRow, AFiniteWeightBeyondTheTypeIsRefusedAndInfinityIsNot) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isinf(decoded(encoded({infinity}, ElementType::kF16)[0], ElementType::kF16)));
  EXPECT_EQ(testing::outcome_of([] {
              encoded({1.0F, 65520.0F}, ElementType::kF16);
            }),
            "E-DTYPE 78");
  EXPECT_EQ(testing::outcome_of([] { encoded({65519.0F}, ElementType::kF16); }), "");
  EXPECT_EQ(
      testing::outcome_of([] { encoded({std::numeric_limits<float>::max()}, ElementType::kBF16); }),
      "E-DTYPE 78");
  EXPECT_NE(testing::message_of([] {
              encoded({1e6F}, ElementType::kF16);
            }).find("W: a weight of 1e+06 is beyond float16; --dtype bf16 or f32 holds it"),
            std::string::npos);
}

TEST(BlockRows, AreThePowersOfTwoThatTakeAQuarterOfAMebibyte) {
  for (const std::uint64_t row_bytes :
       {1U, 255U, 256U, 257U, 512U, 14336U, 131072U, 131073U, 262144U, 262145U, 1U << 30U}) {
    const std::int64_t rows = block_rows(row_bytes);
    EXPECT_EQ(rows & (rows - 1), 0) << row_bytes;
    EXPECT_LE(rows, kGateChunkRows);
    EXPECT_TRUE(rows == 1 || static_cast<std::uint64_t>(rows) * row_bytes <= 262144U) << row_bytes;
    EXPECT_TRUE(rows == kGateChunkRows ||
                2 * static_cast<std::uint64_t>(rows) * row_bytes > 262144U)
        << row_bytes;
  }
}

TEST(BlockDigest, IsTheBeginningOfSha256) {
  // FIPS 180-2, B.1: SHA-256 of "abc" begins with ba7816bf 8f01cfea.
  const std::string text = "abc";
  EXPECT_EQ(static_cast<std::uint64_t>(block_digest(testing::bytes_of(text))), 0xEACF018FBF1678BAU);
}

}  // namespace
}  // namespace vindex::commands::vector_writer_test
