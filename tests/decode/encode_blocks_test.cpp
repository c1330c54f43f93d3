// The quantisers against golden blocks of the package `gguf` (tests/data/ggml_blocks) and against
// blocks that ggml itself wrote.
#include "conformance_files.hpp"
#include "decode_support.hpp"

#include "decode/encode/encode.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace vindex::decode::encode_blocks_test {
namespace {

using testing::read_bytes;
using testing::read_floats;

const std::vector<std::pair<ElementType, std::string>> kTypes = {{ElementType::kQ4_0, "q4_0"},
                                                                 {ElementType::kQ4_1, "q4_1"},
                                                                 {ElementType::kQ5_0, "q5_0"},
                                                                 {ElementType::kQ5_1, "q5_1"},
                                                                 {ElementType::kQ8_0, "q8_0"}};

std::vector<std::byte> encoded(ElementType type, const std::vector<float>& values) {
  const Encoding encoding = plain_encoding(type);
  const auto count = static_cast<std::int64_t>(values.size());
  std::vector<std::byte> codes(encoded_size(encoding, 1, count).value().code_bytes);
  encode_matrix(encoding, values.data(), 1, count, count, codes, {});
  return codes;
}

std::vector<float> weights_of(ElementType type, const std::vector<std::byte>& codes) {
  const Encoding encoding = plain_encoding(type);
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 1;
  matrix.cols = static_cast<std::int64_t>(codes.size()) / element_type_row(type).block_bytes *
                element_type_row(type).block_elements;
  matrix.codes = codes.data();
  matrix.row_stride_bytes = static_cast<std::int64_t>(codes.size());
  return testing::decoded(matrix);
}

double squared_distance(const float* a, const float* b) {
  double sum = 0.0;
  for (int i = 0; i < 32; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

// ggml chooses codes for a scale that it has not rounded yet: no block of ours is farther from the
// weights than its block, and scales that F16 holds with a full mantissa are the same.
TEST(EncodeBlocks, GoldenBlocksOfEveryTypeOrNearerOnes) {
  const std::filesystem::path folder =
      std::filesystem::path(VINDEX_SOURCE_DIR) / "tests/data/ggml_blocks";
  const std::vector<float> weights = read_floats(folder / "weights.f32");
  ASSERT_EQ(weights.size() % 32, 0U);
  ASSERT_GT(weights.size(), 32U * 70U);
  for (const auto& [type, name] : kTypes) {
    const auto wanted = read_bytes(folder / (name + ".bin"));
    const auto got = encoded(type, weights);
    ASSERT_EQ(got.size(), wanted.size());
    const std::vector<float> ours = weights_of(type, got);
    const std::vector<float> theirs = weights_of(type, wanted);
    const auto width = static_cast<std::size_t>(element_type_row(type).block_bytes);
    for (std::size_t block = 0; block < got.size() / width; ++block) {
      const double error = squared_distance(&ours[block * 32], &weights[block * 32]);
      const double error_of_ggml = squared_distance(&theirs[block * 32], &weights[block * 32]);
      if (std::isfinite(error_of_ggml)) {  // not so where the scale is beyond F16
        EXPECT_LE(error, error_of_ggml) << name << " block " << block;
      }
      const int high = std::to_integer<int>(wanted[block * width + 1]) & 0x7F;
      if (high >= 4) {
        EXPECT_EQ(std::memcmp(&got[block * width], &wanted[block * width], 2), 0)
            << name << " block " << block;
      }
    }
  }
}

TEST(EncodeBlocks, WeightsTooSmallForAReciprocalBecomeZero) {
  for (const float tiny : {1e-41F, -1e-41F, 1e-45F}) {
    std::vector<float> values(32, 0.0F);
    values[5] = tiny;
    for (const auto& [type, name] : kTypes) {
      for (const float value : weights_of(type, encoded(type, values))) {
        EXPECT_EQ(value, 0.0F) << name << " " << tiny;
      }
    }
  }
}

// ggml begins its search for the largest magnitude at +0, which a -0 does not exceed.
TEST(EncodeBlocks, NegativeZerosAreZeros) {
  const std::vector<float> zeros(32, 0.0F);
  const std::vector<float> negative(32, -0.0F);
  for (const ElementType type : {ElementType::kQ4_0, ElementType::kQ5_0, ElementType::kQ8_0}) {
    EXPECT_EQ(encoded(type, negative), encoded(type, zeros));
  }
}

TEST(EncodeBlocks, DoublesAndFloatsComeBack) {
  const std::vector<float> values = {0.0F, -0.0F, 1.5F, -3e38F, 1e-45F, 0.1F};
  for (const ElementType type : {ElementType::kF64, ElementType::kF32}) {
    EXPECT_TRUE(testing::same_weights(weights_of(type, encoded(type, values)), values));
  }
}

// What ggml wrote and what its quantiser makes of the decoded weights: the same bytes, on these
// 2560 blocks of each type. No rule holds it for all (a scale is stored rounded, and blocks of
// other writers need no weight at the end of their codes), so what is not edited is copied.
TEST(EncodeBlocks, RealBlocksAreFoundAgain) {
  const std::filesystem::path folder = testing::shared_data() / "gguf/conformance";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no folder " << folder;
  }
  for (const auto& [type, name] : kTypes) {
    std::size_t blocks = 0;
    std::size_t same = 0;
    const auto file = testing::read_gguf(folder / (name + ".gguf"));
    for (const auto& [tensor, stored] : file.tensors) {
      if (stored.type != type || tensor == "random_bits.weight") {
        continue;
      }
      const std::vector<std::byte> original(stored.bytes.begin(), stored.bytes.end());
      const std::vector<float> before = weights_of(type, original);
      const auto again = encoded(type, before);
      const std::vector<float> after = weights_of(type, again);
      const auto width = static_cast<std::size_t>(element_type_row(type).block_bytes);
      for (std::size_t b = 0; b < original.size() / width; ++b, ++blocks) {
        same += std::memcmp(&original[b * width], &again[b * width], width) == 0 ? 1 : 0;
        float largest = 0.0F;
        float moved = 0.0F;
        for (std::size_t i = b * 32; i < b * 32 + 32; ++i) {
          largest = std::max(largest, std::fabs(before[i]));
          moved = std::max(moved, std::fabs(before[i] - after[i]));
        }
        // Never by more than the rounding of scale and minimum to F16.
        ASSERT_LE(moved, largest * 0x1.1p-10F) << tensor << " block " << b;
      }
    }
    ASSERT_GT(blocks, 100U) << name;
    EXPECT_EQ(same, blocks) << name;
  }
}

}  // namespace
}  // namespace vindex::decode::encode_blocks_test
