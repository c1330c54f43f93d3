// Float64 Gram matrices of E4M3 codes: exact where scales round nothing, else as near as their
// model says; sums of weights and signs of draws as the decoders have them.
#include "kernels/gram/codes/code_slices.hpp"

#include "gram_fixture.hpp"

#include "core/philox.hpp"

#include <cmath>
#include <limits>
#include <optional>

namespace vindex::test::code_slices_test {
namespace {

using kernels::CodeScales;
using Scale = std::function<float(std::int64_t block)>;
using Code = std::function<std::uint8_t(std::int64_t row, std::int64_t col)>;

/// Codes and float32 scales as they are, under blocks of 128 x 128.
HostMatrix matrix_of(std::int64_t rows, std::int64_t cols, const Code& code, const Scale& scale,
                     std::int32_t block = 128) {
  std::vector<std::byte> codes(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    codes[static_cast<std::size_t>(i)] = static_cast<std::byte>(code(i / cols, i % cols));
  }
  const std::int64_t blocks = ((rows + block - 1) / block) * ((cols + block - 1) / block);
  std::vector<std::byte> scales(static_cast<std::size_t>(4 * blocks));
  for (std::int64_t i = 0; i < blocks; ++i) {
    const float one = scale(i);
    std::memcpy(scales.data() + 4 * i, &one, 4);
  }
  return {decode::fp8_block_encoding(block, block),
          rows,
          cols,
          std::move(codes),
          std::move(scales),
          decode::ElementType::kF32};
}

/// Any finite code, of a seed.
Code any_code(std::uint32_t seed) {
  auto random = std::make_shared<std::mt19937>(seed);
  return [random](std::int64_t, std::int64_t) {
    const auto bits = static_cast<std::uint8_t>((*random)() >> 24U);
    return static_cast<std::uint8_t>((bits & 0x7FU) == 0x7FU ? bits & 0xF0U : bits);
  };
}

/// Codes of normal numbers of deviation 100.
Code normal_code(std::uint32_t seed) {
  auto weight = std::make_shared<HostMatrix::Weight>(gaussian(seed, 100.0F));
  return [weight](std::int64_t row, std::int64_t col) {
    return decode::encode_e4m3((*weight)(row, col));
  };
}

struct CodeGrams {
  std::int64_t p, leading;
  std::vector<double> values;
  std::vector<kernels::RawMoments> moments;
  double at(std::int64_t matrix, std::int64_t row, std::int64_t col) const {
    return values[static_cast<std::size_t>((matrix * leading + col) * leading + row)];
  }
};

struct Draw {
  std::vector<std::uint64_t> keys = {};
  bool transposed = false;
  std::uint64_t number = 0;
};

class CodeSlices : public KernelTest {
 protected:
  /// By all kernels that run here: those of int8 products alone to the same bits.
  CodeGrams form(const std::vector<const HostMatrix*>& matrices, CodeScales scales,
                 const Draw& draw = {}, std::size_t misalignment = 0) {
    std::optional<CodeGrams> found;
    for (const kernels::ProductKernel kernel : product_kernels()) {
      CodeGrams own = form_by(kernel, matrices, scales, draw, misalignment);
      if (!found) {
        found = std::move(own);
        continue;
      }
      for (std::int64_t i = 0; i < std::ssize(matrices); ++i) {
        for (std::int64_t col = 0; col < own.leading; ++col) {
          for (std::int64_t row = 0; row < own.leading; ++row) {
            const double one = own.at(i, row, col);
            const double other = found->at(i, row, col);
            const bool is_lower = row >= col && row < own.p;
            const double size =
                is_lower ? std::sqrt(found->at(i, row, row) * found->at(i, col, col)) : 0.0;
            const double allowed =
                scales == CodeScales::kExact ? 0.0 : kernels::kRoundedCodesUnit * size;
            EXPECT_TRUE(std::abs(one - other) <= allowed || (std::isnan(one) && std::isnan(other)))
                << one << " and " << other << " at " << row << ", " << col;
          }
        }
      }
    }
    return *found;
  }

  CodeGrams form_by(kernels::ProductKernel kernel, const std::vector<const HostMatrix*>& matrices,
                    CodeScales scales, const Draw& draw, std::size_t misalignment) {
    const kernels::GramShape shape = matrices.front()->shape();
    const auto count = static_cast<std::int64_t>(matrices.size());
    std::vector<std::unique_ptr<DeviceMatrix>> on_device;
    std::vector<decode::DecodeView> views;
    for (const HostMatrix* matrix : matrices) {
      EXPECT_EQ(matrix->plan().kind, kernels::OperandKind::kBlockScaled);
      on_device.push_back(std::make_unique<DeviceMatrix>(*matrix, misalignment));
      views.push_back(on_device.back()->view());
    }
    const std::int64_t p = shape.short_side();
    const std::int64_t leading = p + 3;
    DeviceArray<double> grams(
        std::vector<double>(static_cast<std::size_t>(count * leading * leading), -7.0));
    DeviceArray<kernels::RawMoments> moments(static_cast<std::size_t>(2 * count));
    DeviceArray<std::byte> workspace(
        kernels::code_gram_bytes(shape, kernels::code_grams_at_once(shape, count)));
    kernels::form_code_grams({.views = views,
                              .product = kernel,
                              .rounded = scales == CodeScales::kRounded,
                              .sign_flip_keys = draw.keys,
                              .transposed = draw.transposed,
                              .sign_flip_draw = draw.number,
                              .leading = leading,
                              .grams = grams.data(),
                              .moments = moments.data(),
                              .moments_each = 2},
                             workspace.data(), stream());
    return {p, leading, grams.values(), moments.values()};
  }
};

/// Sums of products of weights in 64 bits of fraction, and of their squares.
struct Exact {
  long double product = 0.0L, rows = 0.0L, cols = 0.0L;
};
Exact exact_of(const HostMatrix& matrix, std::int64_t a, std::int64_t b) {
  Exact sums;
  const bool rows = matrix.shape().contracts_rows();
  for (std::int64_t k = 0; k < matrix.shape().long_side(); ++k) {
    const auto first = static_cast<long double>(rows ? matrix.weight(k, a) : matrix.weight(a, k));
    const auto second = static_cast<long double>(rows ? matrix.weight(k, b) : matrix.weight(b, k));
    sums.product += first * second;
    sums.rows += first * first;
    sums.cols += second * second;
  }
  return sums;
}

constexpr std::pair<std::int64_t, std::int64_t> kShapes[] = {
    {150, 130}, {130, 150}, {1, 1}, {1, 40}, {40, 1}, {257, 3}, {17, 129}};

/// Under powers of two that are alike every sum is an integer that float64 holds.
TEST_P(CodeSlices, CodesUnderAPowerOfTwoAreExact) {
  for (const auto& [rows, cols] : kShapes) {
    const HostMatrix matrix =
        matrix_of(rows, cols, any_code(5), [](std::int64_t) { return 0x1p-3F; });
    ASSERT_EQ(kernels::judge_scales(decode::ElementType::kF32, matrix.scales()),
              CodeScales::kExact);
    for (const CodeScales how : {CodeScales::kExact, CodeScales::kRounded}) {
      const CodeGrams got = form({&matrix}, how);
      for (std::int64_t col = 0; col < got.leading; ++col) {
        for (std::int64_t row = 0; row < got.leading; ++row) {
          const double one = got.at(0, row, col);
          if (row < col || row >= got.p) {
            EXPECT_EQ(one, -7.0) << "what is not of the lower triangle stays";
          } else {
            ASSERT_EQ(one, static_cast<double>(exact_of(matrix, row, col).product))
                << row << " " << col << " of " << rows << " x " << cols;
          }
        }
      }
    }
  }
}

/// The largest codes of one sign and of both: 128 of them fill the sums; the digits' carries.
TEST_P(CodeSlices, DigitsAtTheirEnds) {
  for (const int code : {0x7E, 0x7D, 0x01, 0x07, 0x08, 0x0F, 0x5F, 0x67}) {
    const HostMatrix matrix = matrix_of(
        256, 2,
        [=](std::int64_t row, std::int64_t col) {
          return static_cast<std::uint8_t>(col == 1 && row % 3 == 0 ? code | 0x80U : code);
        },
        [](std::int64_t) { return 1.0F; });
    const CodeGrams got = form({&matrix}, CodeScales::kExact);
    for (const auto& [row, col] : {std::pair{0, 0}, {1, 0}, {1, 1}}) {
      EXPECT_EQ(got.at(0, row, col), static_cast<double>(exact_of(matrix, row, col).product))
          << code;
    }
  }
}

/// Scales of any 24 bits that differ by tile: weights are rounded, and so are those of the Gram.
TEST_P(CodeSlices, RoundedWeightsAreWhatIsMultiplied) {
  long double worst = 0.0L;
  long double worst_exact = 0.0L;
  for (const auto& [rows, cols] : {std::pair{400, 150}, {150, 400}}) {
    for (const bool short_scales : {false, true}) {
      std::mt19937 random(11);
      const HostMatrix matrix = matrix_of(rows, cols, normal_code(7), [&](std::int64_t block) {
        const auto bits = (static_cast<std::uint32_t>(random()) & 0x7FFFFFU) | 0x3A000000U;
        const float scale = bits_as<float>(short_scales ? bits & ~15U : bits);
        return block % 3 == 0 ? -scale : std::ldexp(scale, static_cast<int>(block % 4));
      });
      const CodeScales kind = kernels::judge_scales(decode::ElementType::kF32, matrix.scales());
      EXPECT_EQ(kind, short_scales ? CodeScales::kExact : CodeScales::kRounded);
      const CodeGrams got = form({&matrix}, kind);
      for (std::int64_t col = 0; col < got.p; ++col) {
        for (std::int64_t row = col; row < got.p; row += 7) {
          const Exact exact = exact_of(matrix, row, col);
          const long double error =
              std::abs(static_cast<long double>(got.at(0, row, col)) - exact.product) /
              std::sqrt(exact.rows * exact.cols);
          (short_scales ? worst_exact : worst) =
              std::max(short_scales ? worst_exact : worst, error);
        }
      }
    }
  }
  std::printf("errors over the product of norms: exact scales %.2Lg, rounded ones %.2Lg\n",
              worst_exact, worst);
  EXPECT_LE(worst_exact, 4e-16L);
  EXPECT_LE(worst, static_cast<long double>(kernels::kRoundedCodesUnit));
}

/// A code that is no number, or a scale, spoils the lines of its tile; zero takes a tile out.
TEST_P(CodeSlices, WhatIsNotFiniteSpoilsTheLinesOfItsTile) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const float odd : {kInfinity, -kInfinity, kNan, 0.0F, 1.0F}) {
    for (const CodeScales how : {CodeScales::kExact, CodeScales::kRounded}) {
      // Tiles of two lines each over two chunks; the odd scale is of the second line tile.
      const HostMatrix matrix = matrix_of(
          130, 130,
          [&](std::int64_t row, std::int64_t col) {
            const bool is_odd = odd == 1.0F && row == 129 && col == 129;
            return static_cast<std::uint8_t>(is_odd ? 0x7F : 0x30 + (row * 5 + col) % 16);
          },
          [&](std::int64_t block) { return block == 3 ? odd : 1.25F; });
      const CodeGrams got = form({&matrix}, how);
      const bool is_spoilt = odd != 0.0F;
      for (const auto& [row, col] : {std::pair{0, 0}, {127, 3}, {128, 0}, {129, 128}, {129, 129}}) {
        if (is_spoilt && row >= 128) {
          EXPECT_TRUE(std::isnan(got.at(0, row, col))) << odd << " " << row << " " << col;
        } else {
          EXPECT_EQ(got.at(0, row, col), static_cast<double>(exact_of(matrix, row, col).product))
              << odd << " " << row << " " << col;
        }
      }
      const decode::Moments moments = kernels::moments_of(got.moments[0]);
      EXPECT_EQ(moments.nonfinite, odd == 0.0F ? 0 : odd == 1.0F ? 1 : 4);
    }
  }
}

TEST(CodeScalesTest, AreJudgedByTheirBits) {
  const auto judged = [](std::vector<float> scales) {
    return kernels::judge_scales(decode::ElementType::kF32, std::as_bytes(std::span(scales)));
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(judged({}), CodeScales::kExact);
  EXPECT_EQ(judged({1.0F, 0.0F, -0.0F, HUGE_VALF, nan, -0x1.8p-100F}), CodeScales::kExact);
  EXPECT_EQ(judged({1.0F, 0x1.ffffep0F}), CodeScales::kExact) << "twenty bits";
  EXPECT_EQ(judged({1.0F, 0x1.fffff0p0F}), CodeScales::kRounded) << "twenty-one";
  EXPECT_EQ(judged({0x1.000002p0F, 0x1p-117F, 0x1.fffffep118F}), CodeScales::kRounded);
  EXPECT_EQ(judged({0x1.000002p0F, 0x1.fffffep-118F}), CodeScales::kUnfit);
  EXPECT_EQ(judged({0x1p-140F}), CodeScales::kUnfit);
  EXPECT_EQ(judged({-0x1p119F}), CodeScales::kUnfit);
  const std::uint16_t bfloat = 0x3FFF;
  EXPECT_EQ(kernels::judge_scales(decode::ElementType::kBF16, std::as_bytes(std::span(&bfloat, 1))),
            CodeScales::kExact);
  const std::uint8_t e8m0[] = {127, 255, 0};
  EXPECT_EQ(
      kernels::judge_scales(decode::ElementType::kF8E8M0, std::as_bytes(std::span(e8m0).first(2))),
      CodeScales::kExact);
  EXPECT_EQ(kernels::judge_scales(decode::ElementType::kF8E8M0, std::as_bytes(std::span(e8m0))),
            CodeScales::kUnfit);
}

/// Moments of the weights, whole batches, and draws of signs in both numberings.
TEST_P(CodeSlices, MomentsBatchesAndSigns) {
  for (const auto& [rows, cols] : {std::pair{140, 20}, {20, 140}}) {
    std::vector<HostMatrix> matrices;
    for (std::uint32_t i = 0; i < 10; ++i) {
      matrices.push_back(matrix_of(rows, cols, any_code(20 + i), [&](std::int64_t block) {
        return 0x1.2345p-4F * static_cast<float>(block + 1 + i);
      }));
    }
    std::vector<const HostMatrix*> all;
    Draw draw{.keys = {}, .transposed = rows > cols, .number = 3};
    for (const HostMatrix& one : matrices) {
      draw.keys.push_back(1000 + all.size());
      all.push_back(&one);
    }
    const CodeGrams together = form(all, CodeScales::kRounded, {}, 1);
    const CodeGrams drawn = form(all, CodeScales::kRounded, draw);
    for (const std::size_t index : {0UL, 9UL}) {
      const HostMatrix& own = matrices[index];
      const auto at = static_cast<std::int64_t>(index);
      const CodeGrams alone = form({&own}, CodeScales::kRounded);
      std::vector<float> turned = own.weights();
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const std::int64_t element = draw.transposed ? i % cols * rows + i / cols : i;
        if (philox_bit(draw.keys[index], static_cast<std::uint64_t>(element), draw.number)) {
          turned[static_cast<std::size_t>(i)] *= -1.0F;
        }
      }
      const HostMatrix signed_one = HostMatrix(
          decode::plain_encoding(decode::ElementType::kF32), rows, cols,
          [&] {
            std::vector<std::byte> bytes(turned.size() * sizeof(float));
            std::memcpy(bytes.data(), turned.data(), bytes.size());
            return bytes;
          }(),
          {}, decode::ElementType::kF32);
      for (std::int64_t col = 0; col < together.p; ++col) {
        for (std::int64_t row = col; row < together.p; ++row) {
          EXPECT_EQ(together.at(at, row, col), alone.at(0, row, col)) << index;
          const Exact exact = exact_of(signed_one, row, col);
          EXPECT_LE(std::abs(static_cast<long double>(drawn.at(at, row, col)) - exact.product),
                    static_cast<long double>(kernels::kRoundedCodesUnit) *
                        std::sqrt(exact.rows * exact.cols));
        }
      }
      for (const auto& [grams, weights] :
           {std::pair{&together, &own.weights()}, {&drawn, &turned}}) {
        const decode::Moments got = kernels::moments_of(grams->moments[2 * index]);
        const decode::Moments wanted = decode::moments_of(weights->data(), rows, cols, cols);
        EXPECT_EQ(got.count, wanted.count);
        EXPECT_EQ(got.zeros, wanted.zeros);
        EXPECT_EQ(got.min, wanted.min);
        EXPECT_EQ(got.max, wanted.max);
        EXPECT_NEAR(got.sum_squares, wanted.sum_squares, 1e-13 * wanted.sum_squares);
        const double deviation = decode::standard_deviation(wanted);
        EXPECT_NEAR(got.mean, wanted.mean, 1e-13 * deviation);
        EXPECT_NEAR(got.m2, wanted.m2, 1e-12 * wanted.m2);
        EXPECT_NEAR(got.m4, wanted.m4, 1e-10 * wanted.m4);
        const decode::Moments nothing = kernels::moments_of(grams->moments[2 * index + 1]);
        EXPECT_EQ(decode::merge(got, nothing).min, got.min);
        EXPECT_EQ(nothing.count, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Order, CodeSlices, ::testing::Values(0ULL, 3ULL));

}  // namespace
}  // namespace vindex::test::code_slices_test
