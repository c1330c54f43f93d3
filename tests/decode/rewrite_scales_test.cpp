// Blocks that keep their scale: what an edit of any size may change.
#include "decode_support.hpp"
#include "rewrite_support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace vindex::decode::rewrite_scales_test {
namespace {

/// Blocks that no encoder of ours writes: every code in use (INT4's -8 too), scales of both signs
/// and with room to spare.
EncodedWeights foreign_blocks(const Encoding& encoding, std::uint32_t seed) {
  constexpr std::int64_t kRows = 130;
  constexpr std::int64_t kCols = 256;
  EncodedWeights out = encoded_weights(encoding, kRows, kCols, normals(kRows * kCols, seed));
  std::mt19937 random(seed);
  const std::size_t block = encoding.scheme == Scheme::kPlain
                                ? element_type_row(encoding.type).block_bytes
                                : out.codes.size();
  const std::size_t head =  // scale and minimum of ggml's blocks
      encoding.scheme != Scheme::kPlain                                            ? 0
      : encoding.type == ElementType::kQ4_1 || encoding.type == ElementType::kQ5_1 ? 4
                                                                                   : 2;
  for (std::size_t i = 0; i < out.codes.size(); ++i) {
    if (i % block >= head) {
      out.codes[i] = static_cast<std::byte>(random() & 0xFFU);
    } else if (i % block == 1 && random() % 2 == 0) {
      out.codes[i] ^= std::byte{0x80};  // the sign of the scale
    }
    if (encoding.scheme == Scheme::kFp8Block) {
      out.codes[i] &= std::byte{0xF5};  // at most 208: no NaN, and room above
    }
  }
  return out;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  }
  return std::sqrt(sum);
}

TEST(RewriteScales, AnEditOfSizeZeroGivesTheSameBytes) {
  for (const Encoding& encoding : scaled_encodings()) {
    const EncodedWeights before = foreign_blocks(encoding, 21);
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, before.weights(), &counts);
    EXPECT_EQ(after.codes, before.codes) << encoding.label;
    EXPECT_EQ(after.scales, before.scales) << encoding.label;
    EXPECT_EQ(counts.patched + counts.encoded, 0) << encoding.label;
  }
}

TEST(RewriteScales, ATinyEditChangesNoMoreThanItsSize) {
  for (const Encoding& encoding : scaled_encodings()) {
    const EncodedWeights before = foreign_blocks(encoding, 22);
    const std::vector<float> old = before.weights();
    std::vector<float> values = old;
    const std::vector<float> noise = normals(before.rows * before.cols, 23);
    const double norm = distance(old, std::vector<float>(old.size()));
    const auto size =
        static_cast<float>(4.4e-5 * norm / std::sqrt(static_cast<double>(old.size())));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += size * noise[i];
    }
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(after.scales, before.scales) << encoding.label;
    EXPECT_EQ(counts.encoded, 0) << encoding.label;
    // Twice: a code that changes is the one nearest to the new weight.
    EXPECT_LE(distance(after.weights(), old), 2.0 * distance(values, old)) << encoding.label;
    if (encoding.scheme != Scheme::kFp8Block) {  // whose codes are as fine as this around zero
      EXPECT_EQ(after.codes, before.codes) << encoding.label;
    }
  }
}

/// Within the range of a block's codes every new weight gets the nearest of them.
TEST(RewriteScales, ABlockKeepsItsScaleWhileItsCodesHoldTheNewWeights) {
  for (const Encoding& encoding : scaled_encodings()) {
    const EncodedWeights before = foreign_blocks(encoding, 24);
    const std::vector<float> old = before.weights();
    std::vector<float> values = old;
    std::mt19937 random(25);
    const std::int64_t height = encoding.block_rows;
    const std::int64_t width = block_width(encoding);
    for (std::int64_t row = 0; row < before.rows; ++row) {
      for (std::int64_t col = 0; col < before.cols; ++col) {
        // Towards a weight of the same block: inside what its codes span.
        const std::int64_t top = row / height * height;
        const std::int64_t rows = std::min(height, before.rows - top);
        const std::int64_t other_row = top + static_cast<std::int64_t>(random() % 997) % rows;
        const std::int64_t other_col =
            col / width * width + static_cast<std::int64_t>(random() % 997) % width;
        const auto i = static_cast<std::size_t>(row * before.cols + col);
        const auto j = static_cast<std::size_t>(other_row * before.cols + other_col);
        values[i] = old[i] + 0.3F * (old[j] - old[i]);
      }
    }
    RewriteCounts counts;
    const EncodedWeights after = rewritten(before, values, &counts);
    EXPECT_EQ(counts.encoded, 0) << encoding.label;
    EXPECT_EQ(after.scales, before.scales) << encoding.label;
    const double error = distance(after.weights(), values);
    const auto anew = encoded_weights(encoding, before.rows, before.cols, values);
    EXPECT_LE(error, 2.0 * distance(anew.weights(), values)) << encoding.label;
    EXPECT_LT(error, 0.3 * distance(values, old)) << encoding.label;
  }
}

}  // namespace
}  // namespace vindex::decode::rewrite_scales_test
