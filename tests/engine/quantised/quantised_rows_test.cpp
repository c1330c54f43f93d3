// Schemes whose codes lie row by row, every width and every code: packed integers, 8-bit numbers,
// FP4 pairs, MLX. Expected values are computed from the layouts' descriptions.
#include "quantised_support.hpp"

#include <fmt/format.h>

namespace vindex::commands::testing::quantised_rows_test {
namespace {

using Shape = std::vector<std::int64_t>;

std::string packed_config(int bits, int group, bool symmetric) {
  return fmt::format(
      R"({{"quantization_config":{{"quant_method":"compressed-tensors","format":"pack-quantized",)"
      R"("config_groups":{{"group_0":{{"weights":{{"num_bits":{},"group_size":{},"symmetric":{}}}}}}}}}}})",
      bits, group, symmetric);
}

struct PackedCase {
  int bits;
  bool padded;
  bool zeros;
  bool indices;
};

class PackedIntegers : public ::testing::TestWithParam<PackedCase> {};

TEST_P(PackedIntegers, EveryCodeOfEveryWidth) {
  const auto [bits, padded, zeros, indices] = GetParam();
  constexpr std::int64_t kRows = 21;
  constexpr std::int64_t kCols = 192;
  constexpr std::int64_t kGroup = 32;
  constexpr std::int64_t kGroups = kCols / kGroup;
  Numbers numbers(static_cast<std::uint32_t>(bits));
  auto codes = numbers.many(kRows * kCols, 1U << static_cast<unsigned>(bits));
  for (std::size_t i = 0; i < 256; ++i) {
    codes[i] = static_cast<std::uint32_t>(i) % (1U << static_cast<unsigned>(bits));
  }
  const auto zero_codes = numbers.many(kRows * kGroups, 1U << static_cast<unsigned>(bits));
  const auto scales = numbers.bf16(kRows * kGroups);
  const auto words = packed_rows(codes, kCols, bits, padded);
  std::vector<std::int32_t> groups(kCols);
  for (std::size_t c = 0; c < kCols; ++c) {
    groups[c] = static_cast<std::int32_t>(indices ? (c * 7 + 3) % kGroups : c / kGroup);
  }
  std::vector<TestTensor> tensors = {
      {kWeight + "_packed",
       "I32",
       {kRows, static_cast<std::int64_t>(words.size()) / kRows},
       bytes_of(words)},
      {kWeight + "_scale", "BF16", {kRows, kGroups}, bytes_of(scales)},
      {kWeight + "_shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{kRows, kCols})}};
  if (zeros) {
    const auto packed_zeros = packed_columns(zero_codes, kRows, kGroups, bits, padded);
    tensors.push_back({kWeight + "_zero_point",
                       "I32",
                       {static_cast<std::int64_t>(packed_zeros.size()) / kGroups, kGroups},
                       bytes_of(packed_zeros)});
  }
  if (indices) {
    tensors.push_back({kWeight + "_g_idx", "I32", {kCols}, bytes_of(groups)});
  }
  const ModelFolder model(tensors, packed_config(bits, kGroup, !zeros));
  const auto wanted = weights_of(kRows, kCols, [&](std::size_t r, std::size_t c) {
    const std::size_t group = r * kGroups + static_cast<std::size_t>(groups[c]);
    const int zero = zeros ? static_cast<int>(zero_codes[group]) : 1 << (bits - 1);
    return static_cast<float>(static_cast<int>(codes[r * kCols + c]) - zero) *
           bf16_value(scales[group]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

std::vector<PackedCase> packed_cases() {
  std::vector<PackedCase> cases;
  for (int bits = 2; bits <= 8; ++bits) {
    for (const bool padded : {false, true}) {
      if (padded && 32 % bits == 0) {
        continue;
      }
      cases.push_back({bits, padded, false, false});
      cases.push_back({bits, padded, true, false});
      cases.push_back({bits, padded, true, true});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Widths, PackedIntegers, ::testing::ValuesIn(packed_cases()),
                         [](const auto& test) {
                           return fmt::format(
                               "int{}{}{}{}", test.param.bits, test.param.padded ? "_padded" : "",
                               test.param.zeros ? "_asym" : "", test.param.indices ? "_g_idx" : "");
                         });

TEST(PackedIntegersTest, NegativeGroupIndicesMeanNone) {
  Numbers numbers(3);
  const auto codes = numbers.many(4 * 64, 16);
  const auto scales = numbers.bf16(4 * 2);
  const ModelFolder model(
      {{kWeight + "_packed", "I32", {4, 8}, bytes_of(packed_rows(codes, 64, 4))},
       {kWeight + "_scale", "BF16", {4, 2}, bytes_of(scales)},
       {kWeight + "_shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{4, 64})},
       {kWeight + "_g_idx", "I32", {64}, bytes_of(std::vector<std::int32_t>(64, -1))}},
      packed_config(4, 32, true));
  const auto wanted = weights_of(4, 64, [&](std::size_t r, std::size_t c) {
    return static_cast<float>(static_cast<int>(codes[r * 64 + c]) - 8) *
           bf16_value(scales[r * 2 + c / 32]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

struct Float8Case {
  const char* dtype;
  int mantissa_bits, bias;
  bool fnuz;
};

class Float8 : public ::testing::TestWithParam<Float8Case> {};

TEST_P(Float8, EveryCodeUnderEveryGeometryOfScales) {
  const auto [dtype, mantissa_bits, bias, fnuz] = GetParam();
  const auto is_number = [&](std::uint32_t code) {
    const std::uint32_t magnitude = code & 127U;
    return fnuz ? code != 128 : mantissa_bits == 3 ? magnitude != 127 : magnitude < 0x7C;
  };
  std::vector<std::uint32_t> codes(256 * 4);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto code = static_cast<std::uint32_t>(i % 256);
    codes[i] = is_number(code) ? code : 1;
  }
  struct Scales {
    std::string suffix, dtype;
    Shape shape;
    std::size_t block_rows, block_cols, per_row;
  };
  Numbers numbers(9);
  const auto bf16 = numbers.bf16(64);
  const auto f32 = numbers.f32(64);
  const auto powers = numbers.many(64, 255);
  for (const Scales& s :
       {Scales{"_scale", "F32", {}, 100, 1000, 1}, Scales{"_scale", "BF16", {1}, 100, 1000, 1},
        Scales{"_scale", "BF16", {16, 1}, 1, 1000, 1}, Scales{"_scale", "F32", {16}, 1, 1000, 1},
        Scales{"_scale_inv", "F32", {1, 1}, 100, 1000, 1},
        Scales{"_scale", "F8_E8M0", {16, 2}, 1, 32, 2}, Scales{"_scale", "U8", {16, 2}, 1, 32, 2},
        Scales{"_scale", "BF16", {16, 4}, 1, 16, 4}}) {
    const std::size_t count =
        s.dtype == "F32" && s.shape.empty() ? 1 : static_cast<std::size_t>(s.shape[0]) * s.per_row;
    const Bytes scale_bytes =
        s.dtype == "F32" ? bytes_of(std::vector<float>(f32.begin(), f32.begin() + count))
        : s.dtype == "BF16"
            ? bytes_of(std::vector<std::uint16_t>(bf16.begin(), bf16.begin() + count))
            : narrow({powers.begin(), powers.begin() + static_cast<std::ptrdiff_t>(count)});
    const ModelFolder model({{kWeight, dtype, {16, 64}, narrow(codes)},
                             {kWeight + s.suffix, s.dtype, s.shape, scale_bytes}});
    const auto wanted = weights_of(16, 64, [&](std::size_t r, std::size_t c) {
      const std::size_t index = r / s.block_rows * s.per_row + c / s.block_cols;
      const float scale =
          s.dtype == "F32" ? f32[index]
          : s.dtype == "BF16"
              ? bf16_value(bf16[index])
              : static_cast<float>(std::ldexp(1.0, static_cast<int>(powers[index]) - 127));
      return f8_value(codes[r * 64 + c], mantissa_bits, bias) * scale;
    });
    EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted)) << s.dtype << " " << s.per_row;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Float8,
                         ::testing::Values(Float8Case{"F8_E4M3", 3, 7, false},
                                           Float8Case{"F8_E5M2", 2, 15, false},
                                           Float8Case{"F8_E4M3FNUZ", 3, 8, true},
                                           Float8Case{"F8_E5M2FNUZ", 2, 16, true}),
                         [](const auto& test) { return std::string(test.param.dtype); });

TEST(IntQuantised, ScalesPerTensorRowAndGroupWithZeroPoints) {
  Numbers numbers(4);
  const auto codes = numbers.many(6 * 64, 256);
  const auto zeros = numbers.many(6 * 4, 256);
  const auto scales = numbers.bf16(6 * 4);
  const auto signed_value = [](std::uint32_t code) {
    return static_cast<int>(static_cast<std::int8_t>(code));
  };
  for (const std::int64_t groups : {0, 1, 4}) {  // 0: one for all
    for (const bool asymmetric : {false, true}) {
      const Shape shape = groups == 0 ? Shape{1} : Shape{6, groups};
      const std::size_t count = groups == 0 ? 1 : 6 * static_cast<std::size_t>(groups);
      std::vector<TestTensor> tensors = {
          {kWeight, "I8", {6, 64}, narrow(codes)},
          {kWeight + "_scale", "BF16", shape,
           bytes_of(std::vector<std::uint16_t>(scales.begin(), scales.begin() + count))}};
      if (asymmetric) {
        tensors.push_back(
            {kWeight + "_zero_point", "I8", shape, narrow({zeros.begin(), zeros.begin() + count})});
      }
      const ModelFolder model(tensors);
      const auto wanted = weights_of(6, 64, [&](std::size_t r, std::size_t c) {
        const std::size_t per_row = groups < 1 ? 1 : static_cast<std::size_t>(groups);
        const std::size_t index = groups == 0 ? 0 : r * per_row + c / (64 / per_row);
        const int zero = asymmetric ? signed_value(zeros[index]) : 0;
        return static_cast<float>(signed_value(codes[r * 64 + c]) - zero) *
               bf16_value(scales[index]);
      });
      EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted)) << groups << asymmetric;
    }
  }
}

/// 4 x 64 codes that hold each of the sixteen, as bytes.
std::vector<std::uint32_t> fp4_codes() {
  std::vector<std::uint32_t> codes(4 * 64);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i] = static_cast<std::uint32_t>((i * 5 + i / 16) % 16);
  }
  return codes;
}

TEST(Mxfp4, EveryNameAndTypeOfItsPartsIsTheSameWeight) {
  const auto codes = fp4_codes();
  const std::vector<std::uint32_t> powers = {0, 1, 2, 127, 128, 254, 100, 130};
  const auto wanted = weights_of(4, 64, [&](std::size_t r, std::size_t c) {
    return e2m1_value(codes[r * 64 + c]) *
           static_cast<float>(std::ldexp(1.0, static_cast<int>(powers[r * 2 + c / 32]) - 127));
  });
  const Bytes bytes = nibbles(codes, true);
  // compressed-tensors, DeepSeek-V4, a tensor of F4, MLX.
  EXPECT_TRUE(same_bits(ModelFolder({{kWeight + "_packed", "U8", {4, 32}, bytes},
                                     {kWeight + "_scale", "U8", {4, 2}, narrow(powers)}})
                            .decoded(kWeight),
                        wanted));
  EXPECT_TRUE(same_bits(ModelFolder({{kWeight, "I8", {4, 32}, bytes},
                                     {kBase + ".scale", "F8_E8M0", {4, 2}, narrow(powers)}})
                            .decoded(kWeight),
                        wanted));
  EXPECT_TRUE(same_bits(ModelFolder({{kWeight, "F4", {4, 64}, bytes},
                                     {kWeight + "_scale", "F8_E8M0", {4, 2}, narrow(powers)}})
                            .decoded(kWeight),
                        wanted));
  EXPECT_TRUE(same_bits(ModelFolder({{kWeight, "U32", {4, 8}, bytes},
                                     {kBase + ".scales", "U8", {4, 2}, narrow(powers)}},
                                    R"({"quantization":{"bits":4,"group_size":32,"mode":"mxfp4"}})")
                            .decoded(kWeight),
                        wanted));
  // gpt-oss: two experts of two rows, a side for the groups.
  const std::string stack = "model.layers.1.mlp.experts.gate_up_proj";
  const ModelFolder gpt_oss({{stack + "_blocks", "U8", {2, 2, 2, 16}, bytes},
                             {stack + "_scales", "U8", {2, 2, 2}, narrow(powers)}},
                            R"({"model_type":"gpt_oss"})");
  EXPECT_TRUE(same_bits(gpt_oss.decoded(stack), wanted));
}

TEST(Nvfp4, TheFactorMultipliesOrDividesTheScales) {
  const auto codes = fp4_codes();
  Numbers numbers(6);
  const auto scales = numbers.many(4 * 4, 127);
  const float factor = 0.013F;
  const auto wanted = [&](bool divides) {
    return weights_of(4, 64, [&](std::size_t r, std::size_t c) {
      const float stored = f8_value(scales[r * 4 + c / 16], 3, 7);
      const float scale = divides ? stored / factor : stored * factor;
      return e2m1_value(codes[r * 64 + c]) * scale;
    });
  };
  const Bytes global = bytes_of(std::vector<float>{factor});
  const ModelFolder model_opt({{kWeight, "U8", {4, 32}, nibbles(codes, true)},
                               {kWeight + "_scale", "F8_E4M3", {4, 4}, narrow(scales)},
                               {kWeight + "_scale_2", "F32", {}, global},
                               {kBase + ".input_scale", "F32", {}, global}});
  EXPECT_TRUE(same_bits(model_opt.decoded(kWeight), wanted(false)));
  const ModelFolder compressed({{kWeight + "_packed", "U8", {4, 32}, nibbles(codes, true)},
                                {kWeight + "_scale", "F8_E4M3", {4, 4}, narrow(scales)},
                                {kWeight + "_global_scale", "F32", {1}, global},
                                {kBase + ".input_global_scale", "F32", {1}, global}});
  EXPECT_TRUE(same_bits(compressed.decoded(kWeight), wanted(true)));
}

class Mlx : public ::testing::TestWithParam<int> {};

TEST_P(Mlx, AffineOfEveryWidth) {
  const int bits = GetParam();
  Numbers numbers(static_cast<std::uint32_t>(bits) + 50);
  const auto codes = numbers.many(5 * 128, 1U << static_cast<unsigned>(bits));
  const auto scales = numbers.bf16(5 * 2);
  const auto biases = numbers.bf16(5 * 2);
  const auto words = packed_rows(codes, 128, bits);
  const ModelFolder model(
      {{kWeight, "U32", {5, static_cast<std::int64_t>(words.size()) / 5}, bytes_of(words)},
       {kBase + ".scales", "BF16", {5, 2}, bytes_of(scales)},
       {kBase + ".biases", "BF16", {5, 2}, bytes_of(biases)}},
      fmt::format(R"({{"quantization":{{"bits":3,"group_size":64,"{}":{{"bits":{},)"
                  R"("group_size":64}}}}}})",
                  kBase, bits));
  const auto wanted = weights_of(5, 128, [&](std::size_t r, std::size_t c) {
    const std::size_t index = r * 2 + c / 64;
    return static_cast<float>(codes[r * 128 + c]) * bf16_value(scales[index]) +
           bf16_value(biases[index]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

INSTANTIATE_TEST_SUITE_P(Widths, Mlx, ::testing::Values(2, 3, 4, 5, 6, 8));

}  // namespace
}  // namespace vindex::commands::testing::quantised_rows_test
