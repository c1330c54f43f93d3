// Gram matrices on a matrix unit: the decision to use one, and for which weights; the emulated unit
// against float64 sums; the processor's, where it has one, against the emulation, bit for bit.
#include "cpu/gram/amx_tiles.hpp"
#include "cpu/gram/form_gram.hpp"
#include "cpu/gram/simd_gram_amx.hpp"
#include "cpu/gram/split_gram.hpp"
#include "cpu/gram/tile_product.hpp"
#include "cpu/route/plan_svd.hpp"
#include "cpu/simd/matrix_unit.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "tests/support/emulated_tiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vindex::cpu::tile_gram_test {
namespace {

using test::emulated_tile_product;
using test::EmulatedTiles;

bool has_unit() {
  return choose_matrix_unit(matrix_unit_facts(), MatrixUnitPreference::kBest).is_used;
}

TEST(MatrixUnit, IsUsedOnlyWhereEverythingGrantsIt) {
  const MatrixUnitFacts all = {.has_tiles = true,
                               .has_bfloat16 = true,
                               .has_avx512 = true,
                               .saves_tiles = true,
                               .is_permitted = true};
  EXPECT_TRUE(choose_matrix_unit(all, MatrixUnitPreference::kBest).is_used);
  EXPECT_FALSE(choose_matrix_unit(all, MatrixUnitPreference::kNone).is_used);
  EXPECT_EQ(choose_matrix_unit(all, MatrixUnitPreference::kNone).note, "");
  EXPECT_EQ(choose_matrix_unit({}, MatrixUnitPreference::kBest).note, "");
  for (bool MatrixUnitFacts::*missing :
       {&MatrixUnitFacts::has_tiles, &MatrixUnitFacts::has_bfloat16, &MatrixUnitFacts::has_avx512,
        &MatrixUnitFacts::saves_tiles, &MatrixUnitFacts::is_permitted}) {
    MatrixUnitFacts facts = all;
    facts.*missing = false;
    EXPECT_FALSE(choose_matrix_unit(facts, MatrixUnitPreference::kBest).is_used);
  }
  MatrixUnitFacts refused = all;
  refused.is_permitted = false;
  refused.refusal = "Operation not permitted";
  EXPECT_NE(
      choose_matrix_unit(refused, MatrixUnitPreference::kBest).note.find("Operation not permitted"),
      std::string::npos);
}

TEST(MatrixUnit, TheFactsOfThisMachineAgreeWithEachOther) {
  const MatrixUnitFacts& facts = matrix_unit_facts();
  EXPECT_FALSE(facts.is_permitted && !facts.refusal.empty());
  EXPECT_FALSE(facts.is_permitted && !(facts.has_tiles && facts.saves_tiles));
  std::printf("matrix unit: tiles %d, bfloat16 %d, saved %d, permitted %d %s\n", facts.has_tiles,
              facts.has_bfloat16, facts.saves_tiles, facts.is_permitted, facts.refusal.c_str());
}

// Weights with `bits` significant bits, over `decades` powers of two.
std::vector<float> weights_of(std::int64_t count, int bits, int decades, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto drawn = static_cast<std::uint32_t>(generator() >> 9U) | 0x00800000U;
    const std::uint32_t fraction = drawn >> (24 - bits) << (24 - bits);
    const int exponent = -30 - static_cast<int>(generator() % static_cast<unsigned>(decades));
    const float value = std::ldexp(static_cast<float>(fraction), exponent);
    values.push_back((generator() & 1U) != 0 ? -value : value);
  }
  return values;
}

struct Aligned {
  explicit Aligned(std::size_t bytes) : buffer(bytes + 64), size(bytes) {}
  std::span<std::byte> span() {
    void* start = buffer.data();
    std::size_t room = buffer.size();
    std::align(64, size, start, room);
    return {static_cast<std::byte*>(start), size};
  }
  std::vector<std::byte> buffer;
  std::size_t size;
};

std::vector<float> split_gram(const std::vector<float>& values, std::int64_t rows,
                              std::int64_t cols, bool row_slabs, TileProduct tiles,
                              SimdLevel level = best_simd_level()) {
  const std::int64_t n = row_slabs ? cols : rows;
  std::vector<float> gram(n * n, 0.0F);
  Aligned workspace(split_gram_workspace_bytes(n));
  const Tile tile = {.values = values.data(), .rows = rows, .cols = cols};
  const int parts = split_parts_of(tile, kMaxParts);
  EXPECT_GT(parts, 0) << "weights of more than two parts";
  add_split_gram(tile, std::max(parts, 1), row_slabs, gram.data(), workspace.span(), tiles, level);
  return gram;
}

// The largest error of an element over eps32 sum |products|.
double worst_error(const std::vector<float>& values, std::int64_t rows, std::int64_t cols,
                   bool row_slabs, const std::vector<float>& gram) {
  const std::int64_t n = row_slabs ? cols : rows;
  const std::int64_t depth = row_slabs ? rows : cols;
  const auto weight = [&](std::int64_t k, std::int64_t i) {
    return static_cast<double>(values[row_slabs ? k * n + i : i * depth + k]);
  };
  double worst = 0.0;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = 0.0;
      double magnitude = 0.0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += weight(k, i) * weight(k, j);
        magnitude += std::abs(weight(k, i) * weight(k, j));
      }
      worst = std::max(worst, std::abs(gram[i * n + j] - sum) / (0x1p-24 * magnitude));
    }
  }
  return worst;
}

TEST(SplitGram, SumsWhatFloat32HoldsForWeightsOfOneAndTwoParts) {
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{256, 37}, {300, 64}, {1, 5},
                                                          {33, 17},  {2, 2},    {45, 200}};
  for (const auto& [rows, cols] : shapes) {
    for (const bool row_slabs : {true, false}) {
      for (const int bits : {8, 9, 12, 16}) {
        SCOPED_TRACE(::testing::Message()
                     << rows << "x" << cols << " " << row_slabs << " bits " << bits);
        const auto values = weights_of(rows * cols, bits, 12, 1);
        const auto gram = split_gram(values, rows, cols, row_slabs, emulated_tile_product());
        const std::int64_t depth = row_slabs ? rows : cols;
        const std::int64_t pieces = (depth + kSplitDepth - 1) / kSplitDepth;
        EXPECT_LE(worst_error(values, rows, cols, row_slabs, gram),
                  static_cast<double>(17 + 4 * 8 + 2 + pieces));
        const std::int64_t n = row_slabs ? cols : rows;
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t j = i + 1; j < n; ++j) {
            ASSERT_EQ(gram[i * n + j], 0.0F) << "the other triangle";
          }
        }
      }
    }
  }
}

TEST(SplitGram, CountsThePartsThatWeightsNeed) {
  const std::int64_t count = 9001;
  for (const auto& [bits, parts] : {std::pair{1, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 0}, {24, 0}}) {
    // The longest weight alone decides, wherever it is.
    for (const std::int64_t at : {std::int64_t{0}, count / 2, count - 1}) {
      std::vector<float> values = weights_of(count, 1, 12, 1);
      values[static_cast<std::size_t>(at)] = -std::ldexp(1.0F, -3) - std::ldexp(1.0F, -2 - bits);
      const Tile tile = {.values = values.data(), .rows = count, .cols = 1};
      EXPECT_EQ(split_parts_of(tile, 2), parts) << bits;
      EXPECT_EQ(split_parts_of(tile, 1), parts == 1 ? 1 : 0) << bits;
    }
  }
}

TileProduct counted_product = nullptr;
std::int64_t products_on_unit = 0;  // of parts, a call of the unit after the other

void count_products(const TileOperands& operands, float* gram, std::int64_t n,
                    const std::stop_token& stop) {
  products_on_unit += static_cast<std::int64_t>(operands.products.size());
  counted_product(operands, gram, n, stop);
}

// Products of parts that the unit is asked for in the float32 Gram matrix of these weights, which
// are compared with what the library makes of them.
std::int64_t products_for(decode::ElementType type, int bits, std::int64_t rows,
                          std::int64_t cols) {
  const std::vector<float> values = weights_of(rows * cols, bits, 4, 3);
  std::vector<std::uint16_t> halves;
  for (const float value : values) {
    halves.push_back(static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, value) >> 16U));
  }
  decode::Encoding encoding;
  encoding.type = type;
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = rows;
  matrix.cols = cols;
  const bool is_short = type == decode::ElementType::kBF16;
  matrix.codes = is_short ? reinterpret_cast<const std::byte*>(halves.data())
                          : reinterpret_cast<const std::byte*>(values.data());
  matrix.row_stride_bytes = cols * (is_short ? 2 : 4);

  const auto gram_by = [&](TileProduct tiles) {
    const std::int64_t n = std::min(rows, cols);
    std::vector<float> gram(static_cast<std::size_t>(n * n));
    const auto input = make_memory_input(matrix);
    const SvdPlan plan = plan_svd(
        {.rows = rows, .cols = cols, .encoding = &encoding, .options = {}, .tiles = tiles});
    Workspace workspace(plan.workspace_bytes);
    TileReader reader(*input, plan, workspace);
    TileChange change;
    double seconds = 0.0;
    form_gram(reader, plan, change, workspace, gram.data(), seconds);
    return gram;
  };
  counted_product = emulated_tile_product();
  products_on_unit = 0;
  const std::vector<float> by_unit = gram_by(count_products);
  const std::vector<float> by_library = gram_by(nullptr);
  double largest = 0.0;
  for (const float value : by_library) {
    largest = std::max(largest, static_cast<double>(value));
  }
  for (std::size_t i = 0; i < by_unit.size(); ++i) {
    EXPECT_NEAR(by_unit[i], by_library[i], 1e-5 * largest) << i;
  }
  return products_on_unit;
}

TEST(MatrixUnit, MultipliesWhatItWasMeasuredToBeFasterFor) {
  EXPECT_EQ(max_split_parts(1), 1);
  EXPECT_EQ(max_split_parts(2048), 1);
  EXPECT_EQ(max_split_parts(7167), 1);
  EXPECT_EQ(max_split_parts(7168), 2);
  using decode::ElementType;
  // bfloat16 codes a pack at a time, 1024 rows; float32 a tile of 256, each by 1 or 4 products.
  EXPECT_EQ(products_for(ElementType::kBF16, 8, 2048, 20), 2);
  EXPECT_EQ(products_for(ElementType::kF32, 8, 2048, 20), 8);
  EXPECT_EQ(products_for(ElementType::kF32, 11, 2048, 20), 0);
  EXPECT_EQ(products_for(ElementType::kF32, 11, 7168, 20), 28 * 4);
  EXPECT_EQ(products_for(ElementType::kF32, 11, 20, 7168), 28 * 4);
  EXPECT_EQ(products_for(ElementType::kF32, 24, 7168, 20), 0);
}

// One product per element: nothing is rounded but the sum of parts, so 16 bits come out exactly.
TEST(SplitGram, ProductsOfSixteenBitsAreExact) {
  for (const int bits : {8, 11, 12, 16}) {
    const auto values = weights_of(90, bits, 20, 3);
    const auto gram = split_gram(values, 1, 90, true, emulated_tile_product());
    for (std::int64_t i = 0; i < 90; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const double exact = static_cast<double>(values[i]) * static_cast<double>(values[j]);
        ASSERT_NEAR(gram[i * 90 + j], exact, 2 * 0x1p-24 * std::abs(exact)) << bits;
        if (bits <= 12) {
          ASSERT_EQ(gram[i * 90 + j], static_cast<float>(exact)) << bits;
        }
      }
    }
  }
}

TEST(SplitGram, PortableAndVectorSplittingGiveTheSameBits) {
  if (best_simd_level() < SimdLevel::kAvx512) {
    GTEST_SKIP() << "no AVX-512";
  }
  for (const bool row_slabs : {true, false}) {
    const auto values = weights_of(259 * 83, 16, 40, 5);
    const auto portable =
        split_gram(values, 259, 83, row_slabs, emulated_tile_product(), SimdLevel::kPortable);
    EXPECT_EQ(portable, split_gram(values, 259, 83, row_slabs, emulated_tile_product()));
  }
}

// Sums of random signs err less than sums of float32 products do, one after the other.
TEST(SplitGram, ErrsLessThanOneFloat32SumOfThatLength) {
  const std::int64_t rows = 256;
  const std::int64_t cols = 96;
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, normal(generator));
    values.push_back(__builtin_bit_cast(float, bits & 0xFFFFFF00U));
  }
  const auto gram = split_gram(values, rows, cols, true, emulated_tile_product());
  double tiles = 0.0;
  double plain = 0.0;
  for (std::int64_t i = 0; i < cols; ++i) {
    for (std::int64_t j = 0; j < i; ++j) {
      double exact = 0.0;
      float sum = 0.0F;
      for (std::int64_t k = 0; k < rows; ++k) {
        exact += static_cast<double>(values[k * cols + i]) * values[k * cols + j];
        sum += values[k * cols + i] * values[k * cols + j];
      }
      tiles += std::pow(gram[i * cols + j] - exact, 2.0);
      plain += std::pow(sum - exact, 2.0);
    }
  }
  std::printf("rms error of an element: tiles %.2f of a running float32 sum\n",
              std::sqrt(tiles / plain));
  EXPECT_LT(std::sqrt(tiles / plain), 0.6);
}

#if defined(__x86_64__)
// One instruction, on operands of any bits.
template <typename Tiles>
[[gnu::always_inline]] inline void one_product(const std::uint32_t* rows,
                                               const std::uint32_t* columns, float* sums) {
  Tiles tiles;
  tiles.template load<0>(sums, 64);
  tiles.template load<4>(rows, 64);
  tiles.template load<6>(columns, 64);
  tiles.template add_products<0, 4, 6>();
  tiles.template store<0>(sums, 64);
}

__attribute__((target("amx-tile,amx-bf16"))) void one_product_on_amx(const std::uint32_t* rows,
                                                                     const std::uint32_t* columns,
                                                                     float* sums) {
  one_product<AmxTiles>(rows, columns, sums);
}

// Pairs of bfloat16 over `decades` powers of two around 1; few decades sum up, many are mostly
// lost.
std::vector<std::uint32_t> words_of(int decades, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::uint32_t> words(256);
  for (std::uint32_t& word : words) {
    const auto half = [&] {
      const std::uint32_t exponent =
          127U - static_cast<std::uint32_t>(decades) / 2U +
          static_cast<std::uint32_t>(generator() % static_cast<unsigned>(decades));
      return static_cast<std::uint32_t>(generator() & 0x807FU) | exponent << 7U;
    };
    word = half();
    word |= half() << 16U;
  }
  return words;
}

TEST(AmxTiles, AnInstructionHasTheBitsOfTheManual) {
  if (!has_unit()) {
    GTEST_SKIP() << "no matrix unit";
  }
  for (const int decades : {1, 4, 12, 60, 250}) {
    std::int64_t differing = 0;
    std::int64_t total = 0;
    double worst = 0.0;
    for (std::uint32_t seed = 0; seed < 200; ++seed) {
      const auto rows = words_of(decades, 3 * seed);
      const auto columns = words_of(decades, 3 * seed + 1);
      alignas(64) float hardware[256];
      const auto start = words_of(decades, 3 * seed + 2);
      for (int i = 0; i < 256; ++i) {
        hardware[i] = __builtin_bit_cast(float, start[i] & 0xFFFF0000U);
      }
      alignas(64) float emulated[256];
      std::memcpy(emulated, hardware, sizeof(hardware));
      one_product_on_amx(rows.data(), columns.data(), hardware);
      one_product<EmulatedTiles>(rows.data(), columns.data(), emulated);
      for (int i = 0; i < 256; ++i) {
        ++total;
        const bool same = std::memcmp(&hardware[i], &emulated[i], 4) == 0 ||
                          (std::isnan(hardware[i]) && std::isnan(emulated[i]));
        differing += same ? 0 : 1;
        if (!same && std::isfinite(hardware[i]) && std::isfinite(emulated[i])) {
          worst = std::max(worst, std::abs(static_cast<double>(hardware[i]) - emulated[i]) /
                                      std::max(1e-300, std::abs(static_cast<double>(emulated[i]))));
        }
      }
    }
    std::printf("amx: %d powers of two: %ld of %ld sums differ from the manual's, most by %.2g\n",
                decades, static_cast<long>(differing), static_cast<long>(total), worst);
    EXPECT_EQ(differing, 0) << decades;
  }
}

TEST(AmxTiles, SplitGramHasTheBitsOfTheEmulation) {
  if (!has_unit()) {
    GTEST_SKIP() << "no matrix unit";
  }
  const std::pair<std::int64_t, std::int64_t> shapes[] = {{256, 37}, {300, 64}, {1, 5}, {45, 423}};
  for (const auto& [rows, cols] : shapes) {
    for (const bool row_slabs : {true, false}) {
      for (const int bits : {8, 12, 16}) {
        const auto values = weights_of(rows * cols, bits, 12, 1);
        const auto hardware = split_gram(values, rows, cols, row_slabs, amx_tile_product());
        EXPECT_EQ(hardware, split_gram(values, rows, cols, row_slabs, emulated_tile_product()))
            << rows << "x" << cols << " " << bits;
        EXPECT_LE(worst_error(values, rows, cols, row_slabs, hardware), 70.0);
      }
    }
  }
}
#endif

}  // namespace
}  // namespace vindex::cpu::tile_gram_test
