// The sums over weights that the operand kernel takes: moments by counting codes and by sums of
// codes are those of the decoded weights, and exactly so where float64 can hold them; the diagonal
// of the Gram matrix is rounded once.
#include "gram_fixture.hpp"

#include <array>

namespace vindex::test::gram_sums_test {
namespace {

using decode::ElementType;
using kernels::ProductKernel;

class GramSums : public KernelTest {
 protected:
  Grams form_one(const HostMatrix& matrix, ProductKernel kernel = ProductKernel::kWarp) {
    return form({&matrix}, kernel, stream());
  }
  void expect_moments(const HostMatrix& matrix) {
    (void)vindex::test::expect_moments(form_one(matrix).facts[0], matrix);
  }
};

/// Block-scaled E4M3 of any codes, with the scales given.
HostMatrix fp8_codes(std::int64_t rows, std::int64_t cols,
                     const std::function<std::uint8_t(std::int64_t)>& code,
                     const std::vector<float>& scales) {
  std::vector<std::byte> codes(static_cast<std::size_t>(rows * cols));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    codes[static_cast<std::size_t>(i)] = static_cast<std::byte>(code(i));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(scales.data());
  return {decode::fp8_block_encoding(128, 128),
          rows,
          cols,
          codes,
          {bytes, bytes + scales.size() * sizeof(float)},
          ElementType::kF32};
}

TEST_P(GramSums, EveryCodeIsCounted) {
  for (const auto& [rows, cols] : {std::pair{130, 131}, {131, 130}, {3, 257}, {257, 3}, {1, 1}}) {
    std::vector<float> scales;
    for (std::int64_t i = 0; i < (rows + 127) / 128 * ((cols + 127) / 128); ++i) {
      scales.push_back((i % 2 == 0 ? 0.013F : -0.7F) / static_cast<float>(i + 1));
    }
    expect_moments(fp8_codes(
        rows, cols, [](std::int64_t i) { return static_cast<std::uint8_t>(i * 37 % 256); },
        scales));
  }
}

TEST_P(GramSums, ScalesThatAreNoNumbersOrOverflow) {
  const auto any = [](std::int64_t i) { return static_cast<std::uint8_t>(i * 11 % 256); };
  expect_moments(fp8_codes(40, 40, any, {3e+38F}));
  const kernels::GramFacts none = form_one(fp8_codes(40, 40, any, {HUGE_VALF})).facts[0];
  EXPECT_EQ(none.sums.count, 0);
  EXPECT_EQ(none.sums.nonfinite, 1600);
  const HostMatrix half = fp8_codes(256, 40, any, {1.0F, NAN});
  const Grams grams = form_one(half);
  EXPECT_GE(grams.facts[0].sums.nonfinite, 128 * 40);
  for (const float value : grams.values) {
    EXPECT_TRUE(std::isfinite(value));
  }
}

/// Integers times powers of two: float64 holds every sum, in any order.
TEST_P(GramSums, SumsOfCodesAreExact) {
  const HostMatrix fp8 = fp8_codes(
      200, 300,
      [](std::int64_t i) {
        return decode::encode_e4m3(static_cast<float>(static_cast<int>(i * 13 % 31) - 12));
      },
      {0.25F, 0.5F, -1.0F, 2.0F, 0.125F, 1.0F});
  std::vector<std::byte> codes(70 * 160 / 2);
  std::vector<std::uint16_t> scales(70 * 160 / 32);  // bfloat16: 2^-2 to 2^1
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::byte>(i * 89 % 256);
  }
  for (std::size_t i = 0; i < scales.size(); ++i) {
    scales[i] = static_cast<std::uint16_t>(0x3E80 + 0x80 * (i % 4));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(scales.data());
  const HostMatrix int4(decode::packed_int_encoding(4, 32), 70, 160, codes,
                        {bytes, bytes + 2 * scales.size()}, ElementType::kBF16);
  for (const HostMatrix* matrix : {&fp8, &int4}) {
    std::array<double, 4> power{};
    for (const float weight : matrix->weights()) {
      double product = 1.0;
      for (double& sum : power) {
        product *= static_cast<double>(weight);
        sum += product;
      }
    }
    const kernels::WeightSums sums = form_one(*matrix).facts[0].sums;
    for (std::size_t k = 0; k < power.size(); ++k) {
      EXPECT_EQ(sums.power[k], power[k]) << matrix->encoding().label << " " << k;
    }
    EXPECT_EQ(sums.squares, power[1]);
  }
}

/// A mean far from zero: powers about 0 would lose the fourth moment.
TEST_P(GramSums, CodesAboutADistantMean) {
  const HostMatrix matrix = fp8_codes(
      96, 64, [](std::int64_t i) { return static_cast<std::uint8_t>(0x40 + (i * 7 % 5 == 0)); },
      {0.011F});
  EXPECT_NE(form_one(matrix).facts[0].shift, 0.0);
  expect_moments(matrix);
}

TEST_P(GramSums, DiagonalIsRoundedOnce) {
  if (is_emulated() && GetParam() != 0) {
    return;  // one order is long enough
  }
  const auto weight = gaussian(51);
  for (const auto& [rows, cols] : {std::pair{290, 96}, {70, 288}}) {
    for (const decode::Encoding& encoding :
         {decode::plain_encoding(ElementType::kBF16), decode::plain_encoding(ElementType::kF16),
          decode::plain_encoding(ElementType::kF32), decode::plain_encoding(ElementType::kQ8_0),
          decode::packed_int_encoding(4, 32), decode::fp8_block_encoding(128, 128)}) {
      // fp8 weights enter as code times scale, before decoding rounds the product.
      const double unrounded = encoding.scheme == decode::Scheme::kFp8Block ? 0x1p-23 : 0.0;
      const HostMatrix matrix = HostMatrix::encoded(encoding, rows, cols, weight);
      const std::vector<double> exact = matrix.gram();
      for (const ProductKernel kernel : product_kernels()) {
        const Grams grams = form_one(matrix, kernel);
        for (std::int64_t i = 0; i < grams.p; ++i) {
          const double wanted = exact[static_cast<std::size_t>(i * grams.p + i)];
          EXPECT_NEAR(grams.entry(0, i, i), wanted, (0x1p-24 * 1.000001 + unrounded) * wanted)
              << encoding.label << " " << i;
        }
      }
    }
  }
}

/// What conversions of the device make of codes has the bits of what the former kernel makes.
class NativeOperands : public GramSums {
 protected:
  void expect_former_bits(const HostMatrix& matrix, FormOptions options = {}) {
    options.native = false;
    const Grams former = form({&matrix}, ProductKernel::kWarp, stream(), options);
    options.native = true;
    const Grams newer = form({&matrix}, ProductKernel::kWarp, stream(), options);
    EXPECT_EQ(newer.values, former.values);
    const kernels::GramFacts& a = newer.facts[0];
    const kernels::GramFacts& b = former.facts[0];
    EXPECT_EQ(a.sums.count, b.sums.count);
    EXPECT_EQ(a.sums.zeros, b.sums.zeros);
    EXPECT_EQ(a.sums.nonfinite, b.sums.nonfinite);
    for (int k = 0; k < 4; ++k) {
      EXPECT_EQ(a.sums.power[k], b.sums.power[k]) << k;
    }
    EXPECT_EQ(a.sums.squares, b.sums.squares);
    EXPECT_EQ(a.sums.min, b.sums.min);
    EXPECT_EQ(a.sums.max, b.sums.max);
    EXPECT_EQ(a.shift, b.shift);
    EXPECT_EQ(a.exponent, b.exponent);
    EXPECT_EQ(a.scaled_norm_squared, b.scaled_norm_squared);
  }
};

/// One scale per tile of 128 x 128, of either sign and size.
std::vector<float> any_scales(std::int64_t rows, std::int64_t cols) {
  std::vector<float> scales;
  for (std::int64_t i = 0; i < (rows + 127) / 128 * ((cols + 127) / 128); ++i) {
    scales.push_back((i % 2 == 0 ? 0.013F : -0.7F) / static_cast<float>(i + 1));
  }
  return scales;
}

TEST_P(NativeOperands, EveryCodeOfEveryShape) {
  for (const auto& [rows, cols] :
       {std::pair{256, 136}, {136, 256}, {130, 131}, {131, 130}, {3, 257}, {257, 3}, {1, 1}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    const HostMatrix matrix = fp8_codes(
        rows, cols, [](std::int64_t i) { return static_cast<std::uint8_t>(i * 37 / 3 % 256); },
        any_scales(rows, cols));
    expect_former_bits(matrix);
    expect_former_bits(matrix, {.min_workspace = true, .misalignment = 1});
  }
}

TEST_P(NativeOperands, ScalesUnderWhichSomeCodesOrNoneAreNumbers) {
  const auto any = [](std::int64_t i) { return static_cast<std::uint8_t>(i * 11 % 256); };
  for (const float scale : {0.0F, -0.0F, 1e-45F, 7.7e+35F, -3e+37F, 3e+38F, HUGE_VALF, NAN}) {
    SCOPED_TRACE(scale);
    expect_former_bits(fp8_codes(40, 48, any, {scale}));
  }
}

TEST_P(NativeOperands, SignsOfAnyStream) {
  for (const auto& [rows, cols] : {std::pair{150, 136}, {50, 131}}) {
    const HostMatrix matrix =
        HostMatrix::encoded(decode::fp8_block_encoding(128, 128), rows, cols, gaussian(61, 0.3F));
    for (const bool transposed : {false, true}) {
      for (const bool small : {false, true}) {
        expect_former_bits(matrix, {.min_workspace = small,
                                    .sign_flip_keys = {77},
                                    .transposed = transposed,
                                    .sign_flip_draw = 3});
      }
    }
  }
}

TEST_P(NativeOperands, CodesAboutADistantMean) {
  const HostMatrix matrix = fp8_codes(
      96, 64, [](std::int64_t i) { return static_cast<std::uint8_t>(0x40 + (i * 7 % 5 == 0)); },
      {0.011F});
  expect_former_bits(matrix);
  const Grams grams = form({&matrix}, ProductKernel::kWarp, stream(), {.native = true});
  EXPECT_NE(grams.facts[0].shift, 0.0);
  (void)vindex::test::expect_moments(grams.facts[0], matrix);
}

INSTANTIATE_TEST_SUITE_P(Orders, NativeOperands, ::testing::Values(0ULL, 1ULL));
INSTANTIATE_TEST_SUITE_P(Orders, GramSums, ::testing::Values(0ULL, 1ULL));

}  // namespace
}  // namespace vindex::test::gram_sums_test
