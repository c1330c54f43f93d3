// The bfloat16 Gram kernel against float64 sums over decoded weights, every orientation and level.
#include "cpu/gram/simd_gram_bf16.hpp"

#include "cpu/gram/simd_gram_amx.hpp"
#include "cpu/simd/matrix_unit.hpp"
#include "tests/support/emulated_tiles.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace vindex::cpu::simd_gram_bf16_test {
namespace {

// A matrix with its codes, and its weights as float64.
struct Sample {
  decode::Encoding encoding;
  std::vector<std::byte> codes;
  std::vector<float> scales;
  std::vector<double> weights;
  decode::EncodedMatrix view;
};

double e4m3_value(std::uint8_t code) {
  const int exponent = (code >> 3) & 15;
  const int fraction = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1.0 + fraction / 8.0, exponent - 7);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::unique_ptr<Sample> bf16_sample(std::int64_t rows, std::int64_t cols, double deviation) {
  auto sample = std::make_unique<Sample>();
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0F, static_cast<float>(deviation));
  sample->encoding.type = decode::ElementType::kBF16;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, normal(generator)) & 0xFFFF0000U;
    sample->codes.push_back(static_cast<std::byte>(bits >> 16U & 0xFFU));
    sample->codes.push_back(static_cast<std::byte>(bits >> 24U));
    sample->weights.push_back(__builtin_bit_cast(float, bits));
  }
  sample->view.encoding = &sample->encoding;
  sample->view.rows = rows;
  sample->view.cols = cols;
  sample->view.codes = sample->codes.data();
  sample->view.row_stride_bytes = cols * 2;
  return sample;
}

std::unique_ptr<Sample> fp8_sample(std::int64_t rows, std::int64_t cols, std::int32_t block) {
  auto sample = std::make_unique<Sample>();
  std::mt19937 generator(2);
  sample->encoding.scheme = decode::Scheme::kFp8Block;
  sample->encoding.type = decode::ElementType::kF8E4M3;
  sample->encoding.block_rows = sample->encoding.block_cols = block;
  const std::int64_t scale_rows = (rows + block - 1) / block;
  const std::int64_t scale_cols = (cols + block - 1) / block;
  for (std::int64_t i = 0; i < scale_rows * scale_cols; ++i) {
    sample->scales.push_back(1e-3F * (1.0F + static_cast<float>(generator() % 1000) / 100.0F));
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; ++col) {
      auto code = static_cast<std::uint8_t>(generator() & 0xFFU);
      code = (code & 0x7F) == 0x7F ? 0 : code;
      sample->codes.push_back(static_cast<std::byte>(code));
      sample->weights.push_back(e4m3_value(code) *
                                sample->scales[row / block * scale_cols + col / block]);
    }
  }
  sample->view.encoding = &sample->encoding;
  sample->view.rows = rows;
  sample->view.cols = cols;
  sample->view.codes = sample->codes.data();
  sample->view.row_stride_bytes = cols;
  sample->view.companion_count = 1;
  sample->view.companions[0] = {decode::CompanionRole::kScale, decode::ElementType::kF32,
                                scale_rows, scale_cols, std::as_bytes(std::span(sample->scales))};
  return sample;
}

// A way to multiply.
struct Way {
  SimdLevel level = best_simd_level();
  TileProduct tiles = nullptr;
  const char* name = "the best level";
};

void add_gram(const decode::EncodedMatrix& view, bool contract_rows, float scale,
              std::vector<float>& gram, const Way& way) {
  const std::int64_t n = contract_rows ? view.cols : view.rows;
  const std::size_t bytes = gram_bf16_workspace_bytes(n, way.tiles != nullptr);
  std::vector<std::byte> buffer(bytes + 64);
  void* start = buffer.data();
  std::size_t room = buffer.size();
  std::align(64, bytes, start, room);
  gram_bf16(view, contract_rows, scale, gram.data(), n, {static_cast<std::byte*>(start), bytes},
            way.level, {}, way.tiles);
}

// Compares a triangle with float64; the other one must still hold its filling.
void expect_gram(const Sample& sample, bool contract_rows, double scale,
                 const std::vector<float>& gram, float filling) {
  const std::int64_t n = contract_rows ? sample.view.cols : sample.view.rows;
  const std::int64_t depth = contract_rows ? sample.view.rows : sample.view.cols;
  const auto weight = [&](std::int64_t k, std::int64_t i) {
    return scale * sample.weights[contract_rows ? k * n + i : i * depth + k];
  };
  const double allowed = (128.0 + static_cast<double>(depth) / 128.0) * 0x1p-24;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (j > i) {
        ASSERT_EQ(gram[i * n + j], filling) << i << "," << j;
        continue;
      }
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += weight(k, i) * weight(k, j);
        magnitude += std::abs(weight(k, i) * weight(k, j));
      }
      ASSERT_NEAR(gram[i * n + j], filling + sum, allowed * (magnitude + std::abs(filling)))
          << i << "," << j;
    }
  }
}

std::vector<Way> ways() {
  std::vector<Way> all = {{SimdLevel::kPortable, nullptr, "portable"},
                          {SimdLevel::kPortable, test::emulated_tile_product(), "emulated tiles"}};
  if (best_simd_level() >= SimdLevel::kAvx512) {
    all.push_back({SimdLevel::kAvx512, nullptr, "avx512"});
    all.push_back({SimdLevel::kAvx512, test::emulated_tile_product(), "emulated tiles, avx512"});
  }
  if (best_simd_level() >= SimdLevel::kAvx512Bf16) {
    all.push_back({SimdLevel::kAvx512Bf16, nullptr, "avx512bf16"});
  }
  if (choose_matrix_unit(matrix_unit_facts(), MatrixUnitPreference::kBest).is_used) {
    all.push_back({best_simd_level(), amx_tile_product(), "amx"});
  }
  return all;
}

TEST(GramBf16Test, IsFastWhereItWasMeasuredToBe) {
  EXPECT_TRUE(gram_bf16_is_fast(SimdLevel::kAvx512Bf16, true));
  EXPECT_FALSE(gram_bf16_is_fast(SimdLevel::kAvx512Bf16, false));
  EXPECT_FALSE(gram_bf16_is_fast(SimdLevel::kAvx512, true));
}

// Sums of vdpbf16ps are rounded product by product, the odd one of a pair first, and to nearest
// even whatever the mode: so that portable code can stand in for it where its rounding is judged.
TEST(GramBf16Test, PortableSumsHaveTheBitsOfTheInstruction) {
  if (best_simd_level() < SimdLevel::kAvx512Bf16) {
    GTEST_SKIP() << "this processor has no vdpbf16ps";
  }
  for (const bool fp8 : {false, true}) {
    const auto sample = fp8 ? fp8_sample(1500, 70, 128) : bf16_sample(1500, 70, 0.02);
    std::vector<float> portable(70 * 70, 0.0F);
    std::vector<float> instruction(70 * 70, 0.0F);
    add_gram(sample->view, true, 1.0F, portable, {SimdLevel::kPortable, nullptr, "portable"});
    add_gram(sample->view, true, 1.0F, instruction,
             {SimdLevel::kAvx512Bf16, nullptr, "avx512bf16"});
    EXPECT_EQ(portable, instruction);
  }
}

TEST(GramBf16Test, Bfloat16BothOrientationsAtAwkwardSizes) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{300, 37}, {1, 5}, {1031, 16}, {33, 210}};
  for (const auto& [rows, cols] : shapes) {
    for (const bool contract_rows : {true, false}) {
      for (const Way& way : ways()) {
        SCOPED_TRACE(::testing::Message()
                     << rows << "x" << cols << " " << contract_rows << " " << way.name);
        const auto sample = bf16_sample(rows, cols, 0.02);
        const std::int64_t n = contract_rows ? cols : rows;
        std::vector<float> gram(n * n, 0.25F);
        add_gram(sample->view, contract_rows, 1.0F, gram, way);
        expect_gram(*sample, contract_rows, 1.0, gram, 0.25F);
      }
    }
  }
}

TEST(GramBf16Test, Fp8BlockScalesJoinAfterTheSum) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{300, 140}, {129, 260}, {1200, 20}};
  for (const auto& [rows, cols] : shapes) {
    for (const std::int32_t block : {128, 32}) {
      for (const bool contract_rows : {true, false}) {
        for (const Way& way : ways()) {
          SCOPED_TRACE(::testing::Message() << rows << "x" << cols << "/" << block << " "
                                            << contract_rows << " " << way.name);
          const auto sample = fp8_sample(rows, cols, block);
          const std::int64_t n = contract_rows ? cols : rows;
          std::vector<float> gram(n * n, 0.0F);
          add_gram(sample->view, contract_rows, 4.0F, gram, way);
          expect_gram(*sample, contract_rows, 4.0, gram, 0.0F);
        }
      }
    }
  }
}

TEST(GramBf16Test, EveryE4M3CodeHasItsValue) {
  auto sample = fp8_sample(256, 1, 128);
  sample->scales.assign(sample->scales.size(), 1.0F);
  for (int code = 0; code < 256; ++code) {
    sample->codes[code] = static_cast<std::byte>((code & 0x7F) == 0x7F ? 0 : code);
  }
  for (const Way& way : ways()) {
    std::vector<float> gram(256 * 256, 0.0F);
    add_gram(sample->view, false, 1.0F, gram, way);
    for (int code = 0; code < 256; ++code) {
      const double value = e4m3_value(static_cast<std::uint8_t>(sample->codes[code]));
      // Code 56 is 1, so its row and column of W W^T hold the values themselves.
      const int row = std::max(code, 56);
      EXPECT_EQ(gram[row * 256 + std::min(code, 56)], value) << code;
      EXPECT_EQ(gram[code * 256 + code], value * value) << code;
    }
  }
}

TEST(GramBf16Test, SlabsAddUpToTheWhole) {
  for (const bool contract_rows : {true, false}) {
    const auto sample = fp8_sample(384, 384, 128);
    std::vector<float> gram(384 * 384, 0.0F);
    for (std::int64_t first = 0; first < 384; first += 128) {
      decode::EncodedMatrix slab = sample->view;
      if (contract_rows) {
        slab.rows = 128;
        slab.first_row = first;
        slab.codes += first * slab.row_stride_bytes;
      } else {
        slab.cols = 128;
        slab.first_col = first;
        slab.codes += first;
      }
      add_gram(slab, contract_rows, 1.0F, gram, Way{});
    }
    expect_gram(*sample, contract_rows, 1.0, gram, 0.0F);
  }
}

TEST(GramBf16Test, TheScaleLiftsSubnormalWeights) {
  const auto sample = bf16_sample(200, 20, 1e-39);
  for (const Way& way : ways()) {
    std::vector<float> gram(20 * 20, 0.0F);
    add_gram(sample->view, true, 0x1p126F, gram, way);
    expect_gram(*sample, true, 0x1p126, gram, 0.0F);
  }
}

TEST(GramBf16Test, ANanReachesItsRowAndColumn) {
  auto sample = fp8_sample(64, 32, 128);
  sample->codes[5 * 32 + 3] = std::byte{0xFF};
  for (const Way& way : ways()) {
    std::vector<float> gram(32 * 32, 0.0F);
    add_gram(sample->view, true, 1.0F, gram, way);
    EXPECT_TRUE(std::isnan(gram[3 * 32 + 1]));
    EXPECT_TRUE(std::isnan(gram[9 * 32 + 3]));
    EXPECT_FALSE(std::isnan(gram[9 * 32 + 4]));
  }
}

TEST(GramBf16Test, TakesOnlyWhatIsExactInBfloat16) {
  auto sample = fp8_sample(64, 64, 128);
  EXPECT_TRUE(gram_bf16_takes(sample->view, true));
  sample->encoding.block_rows = 1;  // one scale per row: not constant along the contraction
  EXPECT_FALSE(gram_bf16_takes(sample->view, true));
  EXPECT_TRUE(gram_bf16_takes(sample->view, false));
  sample->encoding = decode::Encoding{};
  sample->encoding.type = decode::ElementType::kF16;
  EXPECT_FALSE(gram_bf16_takes(sample->view, true));
  std::vector<float> gram(64 * 64);
  EXPECT_THROW(add_gram(sample->view, true, 1.0F, gram, Way{}), Error);
}

}  // namespace
}  // namespace vindex::cpu::simd_gram_bf16_test
