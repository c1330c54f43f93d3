// The Gram kernels against X^T X of the decoded weights in float64: every kind of operand, both
// orientations, odd shapes, batches; and what they promise to be exact, exactly.
#include "gram_fixture.hpp"

#include "core/philox.hpp"

#include <array>

namespace vindex::test::gram_test {
namespace {

using decode::ElementType;
using kernels::OperandKind;
using kernels::ProductKernel;

class GramKernels : public KernelTest {
 protected:
  Grams form_one(const HostMatrix& matrix, ProductKernel kernel, const FormOptions& options = {}) {
    return form({&matrix}, kernel, stream(), options);
  }
  /// Expects G within `bound` of float64, and the facts to be those of the decoded weights.
  void expect_gram(const HostMatrix& matrix, OperandKind kind, double bound,
                   const FormOptions& options = {}) {
    EXPECT_EQ(matrix.plan(options.may_round).kind, kind);
    const std::vector<double> reference = matrix.gram();
    for (const ProductKernel kernel : product_kernels()) {
      const Grams grams = form_one(matrix, kernel, options);
      EXPECT_LE(relative_error(grams, 0, reference), bound);
      expect_facts(grams, matrix);
    }
  }
  static void expect_facts(const Grams& grams, const HostMatrix& matrix) {
    const decode::Moments wanted = expect_moments(grams.facts[0], matrix);
    EXPECT_EQ(grams.facts[0].exponent, wanted.max_abs() == 0.0 ? 0 : std::ilogb(wanted.max_abs()));
    double norm = 0.0;
    for (std::int64_t i = 0; i < grams.order; ++i) {
      for (std::int64_t j = 0; j < grams.order; ++j) {
        norm += grams.entry(0, i, j) * grams.entry(0, i, j);
      }
    }
    EXPECT_NEAR(kernels::gram_norm_squared(grams.facts[0]), norm, 1e-13 * norm);
  }
};

constexpr double kSumError = 1.5e-7;  // of the float32 sums; the operands are exact

TEST_P(GramKernels, BlockScaledFp8ContractedOverRows) {
  expect_gram(HostMatrix::encoded(decode::fp8_block_encoding(128, 128), 300, 160, gaussian(1)),
              OperandKind::kBlockScaled, kSumError);
}

TEST_P(GramKernels, BlockScaledFp8ContractedOverColumns) {
  expect_gram(HostMatrix::encoded(decode::fp8_block_encoding(128, 128), 144, 272, gaussian(2)),
              OperandKind::kBlockScaled, kSumError);
}

/// The reduction to a band wants the largest diagonal entry in [1/2, 1): nothing is left to scale.
TEST_P(GramKernels, TheLargestDiagonalEntryIsBelowOne) {
  for (const float unit : {1.0F, 1.5F, 3e-20F, 7e+11F}) {
    const auto weight = gaussian(16, unit);
    for (const decode::Encoding& encoding :
         {decode::fp8_block_encoding(128, 128), decode::plain_encoding(ElementType::kF32)}) {
      const HostMatrix matrix =
          HostMatrix::encoded(encoding, 140, 40, [&](std::int64_t row, std::int64_t col) {
            return col == 7 ? (row == 3 ? 1e-22F * unit : 0.0F) : weight(row, col);  // no zero row
          });
      for (const ProductKernel kernel : product_kernels()) {
        const Grams grams = form_one(matrix, kernel);
        float largest = 0.0F;
        for (std::int64_t i = 0; i < grams.p; ++i) {
          largest = std::max(largest, grams.at(0, i, i));
        }
        EXPECT_GE(largest, 0.5F) << encoding.label << " " << unit;
        EXPECT_LT(largest, 1.0F) << encoding.label << " " << unit;
        EXPECT_EQ(grams.at(0, 7, 7) > 0.0F, matrix.weight(3, 7) != 0.0);
      }
    }
  }
}

/// Two weights of one step of the contraction, 1 and 2: where the four entries that are not zero
/// lie says which operand was read for which, whatever else is wrong.
TEST_P(GramKernels, TwoWeightsMeetWhereTheyBelong) {
  constexpr std::int64_t kLong = 200;
  constexpr std::int64_t kShort = 130;
  const std::vector<std::int64_t> few = {137};
  const std::vector<std::int64_t> many = {0,  1,  2,  7,  8,  9,  15, 16,  17,  31,  32,
                                          33, 47, 48, 63, 64, 65, 96, 127, 128, 129, 199};
  for (const bool tall : {true, false}) {
    for (const decode::Encoding& encoding :
         {decode::plain_encoding(ElementType::kBF16), decode::fp8_block_encoding(128, 128),
          decode::plain_encoding(ElementType::kF32)}) {
      std::vector<HostMatrix> matrices;
      for (const std::int64_t step : is_emulated() ? few : many) {
        const std::int64_t one = step * 37 % kShort;
        const std::int64_t two = (one + 65 + step % 3) % kShort;
        matrices.push_back(HostMatrix::encoded(
            encoding, tall ? kLong : kShort, tall ? kShort : kLong,
            [=](std::int64_t row, std::int64_t col) {
              const std::int64_t along = tall ? row : col;
              const std::int64_t line = tall ? col : row;
              return along != step ? 0.0F : line == one ? 1.0F : line == two ? 2.0F : 0.0F;
            }));
      }
      std::vector<const HostMatrix*> batch;
      for (const HostMatrix& matrix : matrices) {
        batch.push_back(&matrix);
      }
      for (const ProductKernel kernel : product_kernels()) {
        const Grams grams = form(batch, kernel, stream());
        for (std::size_t i = 0; i < batch.size(); ++i) {
          EXPECT_LE(relative_error(grams, i, batch[i]->gram()), kSumError)
              << encoding.label << ", tall " << tall << ", kernel " << static_cast<int>(kernel)
              << ", case " << i;
        }
      }
    }
  }
}

TEST_P(GramKernels, OneScalePerTensor) {
  expect_gram(HostMatrix::encoded(decode::fp8_block_encoding(200, 70), 200, 70, gaussian(3)),
              OperandKind::kBlockScaled, kSumError);
}

TEST_P(GramKernels, NarrowFp8BlocksAreDecodedToPairs) {
  expect_gram(HostMatrix::encoded(decode::fp8_block_encoding(64, 32), 160, 96, gaussian(4)),
              OperandKind::kHalfPair, kSumError);
}

TEST_P(GramKernels, ScalesThatChangeAnywhere) {
  for (const decode::Encoding& encoding :
       {decode::fp8_block_encoding(1, 96), decode::fp8_block_encoding(1, 8),
        decode::packed_int_encoding(4, 8)}) {
    const HostMatrix matrix = HostMatrix::encoded(encoding, 40, 96, gaussian(13));
    EXPECT_LE(relative_error(form_one(matrix, ProductKernel::kWarp), 0, matrix.gram()), kSumError)
        << encoding.label;
  }
}

TEST_P(GramKernels, PlainFloats) {
  const auto of = [](ElementType type, std::int64_t rows, std::int64_t cols) {
    return HostMatrix::encoded(decode::plain_encoding(type), rows, cols, gaussian(5));
  };
  expect_gram(of(ElementType::kBF16, 150, 70), OperandKind::kBfloat16, kSumError);
  expect_gram(of(ElementType::kBF16, 70, 150), OperandKind::kBfloat16, kSumError);
  expect_gram(of(ElementType::kF16, 150, 70), OperandKind::kHalf, kSumError);
  expect_gram(of(ElementType::kF16, 70, 150), OperandKind::kHalf, kSumError);
  expect_gram(of(ElementType::kF32, 150, 70), OperandKind::kHalfPair, kSumError);
  expect_gram(of(ElementType::kF32, 70, 150), OperandKind::kHalfPair, kSumError);
}

TEST_P(GramKernels, RoundingOnceIsWhatItCosts) {
  const HostMatrix matrix =
      HostMatrix::encoded(decode::plain_encoding(ElementType::kF32), 150, 70, gaussian(6));
  expect_gram(matrix, OperandKind::kRoundedHalf, 2e-4, {.may_round = true});
  const Grams rounded = form_one(matrix, ProductKernel::kWarp, {.may_round = true});
  EXPECT_GE(relative_error(rounded, 0, matrix.gram()), 1e-6);
}

TEST_P(GramKernels, PackedIntegers) {
  expect_gram(HostMatrix::encoded(decode::packed_int_encoding(4, 32), 150, 96, gaussian(7)),
              OperandKind::kHalf, kSumError);
  expect_gram(HostMatrix::encoded(decode::packed_int_encoding(4, 32), 70, 160, gaussian(8)),
              OperandKind::kHalf, kSumError);
}

TEST_P(GramKernels, GgmlBlocks) {
  expect_gram(HostMatrix::encoded(decode::plain_encoding(ElementType::kQ8_0), 150, 96, gaussian(9)),
              OperandKind::kHalfPair, kSumError);
  expect_gram(HostMatrix::encoded(decode::plain_encoding(ElementType::kQ8_0), 70, 160, gaussian(9)),
              OperandKind::kHalfPair, kSumError);
}

TEST_P(GramKernels, CodesNeedNoAlignment) {
  for (const decode::Encoding& encoding :
       {decode::fp8_block_encoding(128, 128), decode::packed_int_encoding(4, 32),
        decode::plain_encoding(ElementType::kF16), decode::plain_encoding(ElementType::kF32)}) {
    const HostMatrix matrix = HostMatrix::encoded(encoding, 40, 32, gaussian(10));
    EXPECT_LE(relative_error(form_one(matrix, ProductKernel::kWarp, {.misalignment = 1}), 0,
                             matrix.gram()),
              kSumError);
  }
}

TEST_P(GramKernels, OddShapes) {
  const decode::Encoding encoding = decode::plain_encoding(ElementType::kF16);
  for (const auto& [rows, cols] :
       {std::pair{1, 1}, {1, 200}, {200, 1}, {17, 17}, {33, 129}, {129, 130}}) {
    const HostMatrix matrix = HostMatrix::encoded(encoding, rows, cols, gaussian(11));
    for (const ProductKernel kernel : product_kernels()) {
      EXPECT_LE(relative_error(form_one(matrix, kernel), 0, matrix.gram()), 2 * kSumError)
          << rows << " x " << cols;
    }
  }
}

/// Blocks of several tiles, whole and cut by the diagonal, an odd number of them and an even one;
/// both kernels add in the same order.
TEST_P(GramKernels, ManyTiles) {
  if (is_emulated() && GetParam() != 0) {
    return;  // one order is long enough
  }
  const HostMatrix odd =
      HostMatrix::encoded(decode::fp8_block_encoding(128, 128), 310, 300, gaussian(14));
  const HostMatrix even =
      HostMatrix::encoded(decode::plain_encoding(ElementType::kBF16), 390, 395, gaussian(15));
  for (const HostMatrix* matrix : {&odd, &even}) {
    const std::vector<double> reference = matrix->gram();
    std::vector<Grams> all;
    for (const ProductKernel kernel : product_kernels()) {
      all.push_back(form_one(*matrix, kernel));
      EXPECT_LE(relative_error(all.back(), 0, reference), kSumError) << matrix->encoding().label;
    }
    if (is_emulated() && all.size() == 3) {
      EXPECT_EQ(all[0].values, all[1].values) << matrix->encoding().label;
      EXPECT_EQ(all[1].values, all[2].values) << matrix->encoding().label;
      // Only the shares of the norm are added in another order.
      EXPECT_NEAR(all[2].facts[0].scaled_norm_squared, all[1].facts[0].scaled_norm_squared,
                  1e-14 * all[1].facts[0].scaled_norm_squared);
    }
  }
  // A contraction in several launches, of which each reads what the one before wrote.
  for (const ProductKernel kernel : product_kernels()) {
    EXPECT_EQ(form_one(odd, kernel, {.min_workspace = true}).values, form_one(odd, kernel).values)
        << static_cast<int>(kernel);
  }
}

/// Sums of integers below 2^24 are exact in any order, so the whole matrix must be.
TEST_P(GramKernels, IntegersAreExact) {
  const auto small = [](std::int64_t row, std::int64_t col) {
    return static_cast<float>((row * 7 + col * 3) % 9 - 4);
  };
  const auto wide = [](std::int64_t row, std::int64_t col) {  // 12 bits: the low part matters
    return row % 64 == 5 ? static_cast<float>(2049 - 2 * (col % 5)) : 0.0F;
  };
  std::vector<HostMatrix> matrices;
  for (const auto& [rows, cols] : {std::pair{200, 96}, {96, 192}}) {
    for (const ElementType type : {ElementType::kF16, ElementType::kBF16, ElementType::kF32}) {
      matrices.push_back(HostMatrix::encoded(decode::plain_encoding(type), rows, cols, small));
    }
  }
  matrices.push_back(HostMatrix::encoded(decode::plain_encoding(ElementType::kF32), 192, 40, wide));
  for (const HostMatrix& matrix : matrices) {
    for (const ProductKernel kernel : product_kernels()) {
      EXPECT_EQ(relative_error(form_one(matrix, kernel), 0, matrix.gram()), 0.0)
          << matrix.encoding().label << " " << matrix.matrix().rows;
    }
  }
}

/// Codes of small integers, scales powers of two that differ by block.
TEST_P(GramKernels, Fp8ProductsAndScalesAreExact) {
  for (const auto& [rows, cols] : {std::pair{256, 144}, {144, 256}}) {
    std::vector<std::byte> codes(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<std::byte>(
          decode::encode_e4m3(static_cast<float>(static_cast<int>(i * 13 % 31) - 15)));
    }
    const std::array<float, 4> scales = {0x1p-7F, 0x1p-4F, 0x1p-6F, 0x1p-5F};
    const auto* bytes = reinterpret_cast<const std::byte*>(scales.data());
    const HostMatrix matrix(decode::fp8_block_encoding(128, 128), rows, cols, codes,
                            {bytes, bytes + sizeof scales}, ElementType::kF32);
    for (const ProductKernel kernel : product_kernels()) {
      EXPECT_EQ(relative_error(form_one(matrix, kernel), 0, matrix.gram()), 0.0);
    }
  }
}

TEST_P(GramKernels, ScalesNearTheEndsOfFloat32) {
  for (const float unit : {1e-30F, 1e+30F}) {
    const auto tiny = gaussian(12, 1.0F);
    const HostMatrix::Weight weight = [&](std::int64_t row, std::int64_t col) {
      return tiny(row, col) * unit;
    };
    for (const decode::Encoding& encoding :
         {decode::fp8_block_encoding(128, 128), decode::plain_encoding(ElementType::kBF16),
          decode::plain_encoding(ElementType::kF32), decode::packed_int_encoding(4, 32)}) {
      const HostMatrix matrix = HostMatrix::encoded(encoding, 150, 64, weight);
      for (const ProductKernel kernel : product_kernels()) {
        EXPECT_LE(relative_error(form_one(matrix, kernel), 0, matrix.gram()), kSumError)
            << encoding.label << " " << unit;
      }
    }
  }
}

TEST_P(GramKernels, ZeroMatrix) {
  for (const decode::Encoding& encoding :
       {decode::fp8_block_encoding(128, 128), decode::plain_encoding(ElementType::kF32)}) {
    const HostMatrix matrix =
        HostMatrix::encoded(encoding, 40, 40, [](std::int64_t, std::int64_t) { return 0.0F; });
    const Grams grams = form_one(matrix, ProductKernel::kWarp);
    EXPECT_EQ(relative_error(grams, 0, matrix.gram()), 0.0);
    EXPECT_EQ(kernels::moments_of(grams.facts[0]).zeros, 1600);
    EXPECT_EQ(grams.facts[0].scaled_norm_squared, 0.0);
  }
}

TEST_P(GramKernels, WhatIsNotFiniteIsCountedAndLeftOut) {
  const auto with = [](float odd) {
    return [odd](std::int64_t row, std::int64_t col) {
      return row == 3 && col == 5 ? odd : static_cast<float>(row % 3);
    };
  };
  const HostMatrix infinite =
      HostMatrix::encoded(decode::plain_encoding(ElementType::kF32), 40, 40, with(HUGE_VALF));
  std::vector<std::byte> codes(40 * 40, static_cast<std::byte>(0x38));
  codes[7] = static_cast<std::byte>(0x7F);
  const float one = 1.0F;
  const auto* bytes = reinterpret_cast<const std::byte*>(&one);
  const HostMatrix nan(decode::fp8_block_encoding(128, 128), 40, 40, codes, {bytes, bytes + 4},
                       ElementType::kF32);
  for (const HostMatrix* matrix : {&infinite, &nan}) {
    for (const ProductKernel kernel : product_kernels()) {
      const Grams grams = form_one(*matrix, kernel);
      EXPECT_EQ(kernels::moments_of(grams.facts[0]).nonfinite, 1);
      for (const float value : grams.values) {
        EXPECT_TRUE(std::isfinite(value));
      }
    }
  }
}

/// A scale without weights behind it must not spoil the rest.
TEST_P(GramKernels, ScalesOfEmptyBlocksMayBeAnything) {
  std::vector<std::byte> codes(256 * 40, static_cast<std::byte>(0x38));
  std::fill(codes.begin() + 128 * 40, codes.end(), std::byte{0});
  const std::array<float, 2> scales = {1e-30F, 1e+38F};
  const auto* bytes = reinterpret_cast<const std::byte*>(scales.data());
  const HostMatrix matrix(decode::fp8_block_encoding(128, 128), 256, 40, codes,
                          {bytes, bytes + sizeof scales}, ElementType::kF32);
  EXPECT_LE(relative_error(form_one(matrix, ProductKernel::kWarp), 0, matrix.gram()), kSumError);
}

TEST_P(GramKernels, BatchAndWorkspaceChangeNoBit) {
  for (const decode::Encoding& encoding :
       {decode::fp8_block_encoding(128, 128), decode::plain_encoding(ElementType::kF32)}) {
    std::vector<HostMatrix> matrices;
    for (std::uint32_t seed = 0; seed < 2; ++seed) {
      matrices.push_back(HostMatrix::encoded(encoding, 140, 40, gaussian(20 + seed, 0.5F)));
    }
    for (const ProductKernel kernel : product_kernels()) {
      const Grams batch = form({&matrices[0], &matrices[1]}, kernel, stream());
      for (std::size_t i = 0; i < 2; ++i) {
        const Grams alone = form_one(matrices[i], kernel, {.min_workspace = true});
        EXPECT_LE(relative_error(batch, i, matrices[i].gram()), kSumError);
        EXPECT_TRUE(std::equal(
            alone.values.begin(), alone.values.end(),
            batch.values.begin() + static_cast<std::ptrdiff_t>(i * alone.values.size())));
        EXPECT_EQ(alone.facts[0].scaled_norm_squared, batch.facts[i].scaled_norm_squared);
        EXPECT_EQ(alone.facts[0].sums.squares, batch.facts[i].sums.squares);
        EXPECT_EQ(alone.facts[0].sums.power[3], batch.facts[i].sums.power[3]);
      }
    }
  }
}

TEST_P(GramKernels, SignsAreFlippedByTheStreamOfTheMatrix) {
  constexpr std::uint64_t kKey = 99;
  for (const bool transposed : {false, true}) {
    const std::uint64_t draw = transposed ? 0 : 5;
    const auto weight = gaussian(30);
    std::vector<float> flipped;
    const HostMatrix plain = HostMatrix::encoded(
        decode::plain_encoding(ElementType::kF32), 50, 40, [&](std::int64_t row, std::int64_t col) {
          const float value = weight(row, col);
          const std::int64_t element = transposed ? col * 50 + row : row * 40 + col;
          const bool flips = philox_bit(kKey, static_cast<std::uint64_t>(element), draw);
          flipped.push_back(flips ? -value : value);
          return value;
        });
    const HostMatrix wanted = HostMatrix::encoded(
        decode::plain_encoding(ElementType::kF32), 50, 40, [&](std::int64_t row, std::int64_t col) {
          return flipped[static_cast<std::size_t>(row * 40 + col)];
        });
    const Grams grams =
        form_one(plain, ProductKernel::kWarp,
                 {.sign_flip_keys = {kKey}, .transposed = transposed, .sign_flip_draw = draw});
    EXPECT_LE(relative_error(grams, 0, wanted.gram()), kSumError);
  }
}

/// A mean far from zero: powers about 0 would lose the fourth moment.
TEST_P(GramKernels, MomentsAboutADistantMean) {
  const auto noise = gaussian(31, 0.001F);
  const HostMatrix matrix = HostMatrix::encoded(
      decode::plain_encoding(ElementType::kF32), 64, 64,
      [&](std::int64_t row, std::int64_t col) { return 1.0F + noise(row, col); });
  const Grams grams = form_one(matrix, ProductKernel::kWarp);
  EXPECT_NE(grams.facts[0].shift, 0.0);
  const decode::Moments got = kernels::moments_of(grams.facts[0]);
  const decode::Moments wanted = decode::moments_of(matrix.weights().data(), 64, 64, 64);
  EXPECT_NEAR(got.m2, wanted.m2, 1e-12 * wanted.m2);
  EXPECT_NEAR(got.m4, wanted.m4, 1e-11 * wanted.m4);
}

INSTANTIATE_TEST_SUITE_P(Orders, GramKernels, ::testing::Values(0ULL, 1ULL));

}  // namespace
}  // namespace vindex::test::gram_test
