// Schemes whose codes do not lie row by row: GPTQ, AWQ, bitsandbytes, HQQ, BitNet. Expected values
// are computed from the layouts' descriptions.
#include "quantised_support.hpp"

#include <fmt/format.h>

namespace vindex::commands::testing::quantised_flat_test {
namespace {

struct GptqCase {
  int bits;
  bool version_2;
  bool act_order;
};

class Gptq : public ::testing::TestWithParam<GptqCase> {};

TEST_P(Gptq, EveryCodeAndZeroPoint) {
  const auto [bits, version_2, act_order] = GetParam();
  constexpr std::int64_t kOut = 96;
  constexpr std::int64_t kIn = 128;
  constexpr std::int64_t kGroups = 4;
  const std::uint32_t limit = 1U << static_cast<unsigned>(bits);
  Numbers numbers(static_cast<std::uint32_t>(bits));
  const auto codes = numbers.many(kIn * kOut, limit);  // in x out
  const auto zeros = numbers.many(kGroups * kOut, limit);
  const auto scales = numbers.f16(kGroups * kOut);
  std::vector<std::int32_t> groups(kIn);
  for (std::size_t c = 0; c < kIn; ++c) {
    groups[c] = static_cast<std::int32_t>(act_order ? (c * 5 + 1) % kGroups : c / (kIn / kGroups));
  }
  std::vector<std::uint32_t> stored = zeros;
  for (std::uint32_t& zero : stored) {
    zero = version_2 ? zero : (zero - 1U) % limit;
  }
  std::vector<TestTensor> tensors = {{kBase + ".qweight",
                                      "I32",
                                      {kIn * bits / 32, kOut},
                                      bytes_of(packed_columns(codes, kIn, kOut, bits))},
                                     {kBase + ".qzeros",
                                      "I32",
                                      {kGroups, kOut * bits / 32},
                                      bytes_of(packed_rows(stored, kOut, bits))},
                                     {kBase + ".scales", "F16", {kGroups, kOut}, bytes_of(scales)}};
  if (act_order) {
    tensors.push_back({kBase + ".g_idx", "I32", {kIn}, bytes_of(groups)});
  }
  const ModelFolder model(
      tensors, fmt::format(R"({{"quantization_config":{{"quant_method":"gptq","bits":{},)"
                           R"("group_size":32,"desc_act":{},"checkpoint_format":"{}"}}}})",
                           bits, act_order, version_2 ? "gptq_v2" : "gptq"));
  const auto wanted = weights_of(kOut, kIn, [&](std::size_t r, std::size_t c) {
    const std::size_t index = static_cast<std::size_t>(groups[c]) * kOut + r;
    return static_cast<float>(static_cast<int>(codes[c * kOut + r]) -
                              static_cast<int>(zeros[index])) *
           f16_value(scales[index]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

std::vector<GptqCase> gptq_cases() {
  std::vector<GptqCase> cases;
  for (const int bits : {2, 3, 4, 8}) {
    for (const bool version_2 : {false, true}) {
      for (const bool act_order : {false, true}) {
        cases.push_back({bits, version_2, act_order});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Widths, Gptq, ::testing::ValuesIn(gptq_cases()), [](const auto& test) {
  return fmt::format("int{}_v{}{}", test.param.bits, test.param.version_2 ? 2 : 1,
                     test.param.act_order ? "_act_order" : "");
});

TEST(Awq, NibblesArePermuted) {
  constexpr std::int64_t kOut = 40;
  constexpr std::int64_t kIn = 64;
  constexpr std::size_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  Numbers numbers(8);
  const auto codes = numbers.many(kIn * kOut, 16);  // in x out
  const auto zeros = numbers.many(2 * kOut, 16);
  const auto scales = numbers.f16(2 * kOut);
  const auto words = [&](const std::vector<std::uint32_t>& values) {
    std::vector<std::uint32_t> permuted(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      permuted[i] = values[i / 8 * 8 + kOrder[i % 8]];
    }
    return bytes_of(packed(permuted, 4));
  };
  const ModelFolder model(
      {{kBase + ".qweight", "I32", {kIn, kOut / 8}, words(codes)},
       {kBase + ".qzeros", "I32", {2, kOut / 8}, words(zeros)},
       {kBase + ".scales", "F16", {2, kOut}, bytes_of(scales)}},
      R"({"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"}})");
  const auto wanted = weights_of(kOut, kIn, [&](std::size_t r, std::size_t c) {
    const std::size_t index = c / 32 * kOut + r;
    return static_cast<float>(static_cast<int>(codes[c * kOut + r]) -
                              static_cast<int>(zeros[index])) *
           f16_value(scales[index]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

TEST(Bitsandbytes, NestedScalesAndRowsOfOddLength) {
  constexpr std::int64_t kRows = 9;
  constexpr std::int64_t kCols = 71;
  constexpr std::int64_t kBlocks = (kRows * kCols + 63) / 64;
  Numbers numbers(21);
  const auto codes = numbers.many(kRows * kCols, 16);
  const auto absmax = numbers.many(kBlocks, 256);
  const auto map = numbers.f32(16);
  const auto nested_map = numbers.f32(256);
  const auto nested = numbers.f32((kBlocks + 3) / 4);
  const std::string state =
      fmt::format(R"({{"quant_type":"nf4","blocksize":64,"dtype":"bfloat16","shape":[{},{}],)"
                  R"("nested_blocksize":4,"nested_dtype":"float32","nested_offset":0.0437}})",
                  kRows, kCols);
  const Bytes state_bytes(state.begin(), state.end());
  const ModelFolder model(
      {{kWeight, "U8", {(kRows * kCols + 1) / 2, 1}, nibbles(codes, false)},
       {kWeight + ".absmax", "U8", {kBlocks}, narrow(absmax)},
       {kWeight + ".quant_map", "F32", {16}, bytes_of(map)},
       {kWeight + ".nested_absmax", "F32", {(kBlocks + 3) / 4}, bytes_of(nested)},
       {kWeight + ".nested_quant_map", "F32", {256}, bytes_of(nested_map)},
       {kWeight + ".quant_state.bitsandbytes__nf4",
        "U8",
        {static_cast<std::int64_t>(state.size())},
        state_bytes}});
  const auto wanted = weights_of(kRows, kCols, [&](std::size_t r, std::size_t c) {
    const std::size_t k = r * kCols + c;
    const float product = nested_map[absmax[k / 64]] * nested[k / 64 / 4];
    return map[codes[k]] * (product + 0.0437F);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

struct HqqCase {
  int bits;
  int axis;
};

class Hqq : public ::testing::TestWithParam<HqqCase> {};

TEST_P(Hqq, PlanesAlongTheRowsOfTheReshapedMatrix) {
  const auto [bits, axis] = GetParam();
  constexpr std::int64_t kRows = 24;
  constexpr std::int64_t kCols = 64;
  constexpr std::int64_t kGroup = 32;
  constexpr std::int64_t kGroups = kRows * kCols / kGroup;
  Numbers numbers(static_cast<std::uint32_t>(10 * bits + axis));
  const auto codes = numbers.many(kRows * kCols, 1U << static_cast<unsigned>(bits));
  const auto scales = numbers.f16(kGroups);
  const auto zeros = numbers.f16(kGroups);
  // A = codes as [groups, group] (axis 1) or [group, groups] (axis 0), packed along its rows.
  const std::size_t width = static_cast<std::size_t>(axis == 1 ? kGroup : kGroups);
  const std::size_t height = codes.size() / width;
  const std::size_t planes = bits == 3 ? 10 : bits > 4 ? 1 : 8 / static_cast<std::size_t>(bits);
  const std::size_t step = (height + planes - 1) / planes;
  const int stored_bits = bits > 4 ? 8 : bits;
  std::vector<std::uint32_t> units(step * width, 0);
  for (std::size_t row = 0; row < height; ++row) {
    for (std::size_t col = 0; col < width; ++col) {
      const std::size_t shift = (planes - 1 - row / step) * static_cast<std::size_t>(stored_bits);
      units[row % step * width + col] |= codes[row * width + col] << shift;
    }
  }
  const auto number = [](std::int64_t value) {
    return bytes_of(std::vector<std::int32_t>{static_cast<std::int32_t>(value)});
  };
  const ModelFolder model(
      {{kBase + ".W_q",
        bits == 3 ? "I32" : "U8",
        {static_cast<std::int64_t>(step), static_cast<std::int64_t>(width)},
        bits == 3 ? bytes_of(units) : narrow(units)},
       {kBase + ".scale",
        "F16",
        {axis == 1 ? kGroups : 1, axis == 1 ? 1 : kGroups},
        bytes_of(scales)},
       {kBase + ".zero",
        "F16",
        {axis == 1 ? kGroups : 1, axis == 1 ? 1 : kGroups},
        bytes_of(zeros)},
       {kBase + ".nbits", "I32", {}, number(bits)},
       {kBase + ".group_size", "I32", {}, number(kGroup)},
       {kBase + ".axis", "I32", {}, number(axis)},
       {kBase + ".shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{kRows, kCols})}});
  const auto wanted = weights_of(kRows, kCols, [&](std::size_t r, std::size_t c) {
    const std::size_t k = r * kCols + c;
    const std::size_t index = axis == 1 ? k / kGroup : k % kGroups;
    return (static_cast<float>(codes[k]) - f16_value(zeros[index])) * f16_value(scales[index]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

std::vector<HqqCase> hqq_cases() {
  std::vector<HqqCase> cases;
  for (const int bits : {1, 2, 3, 4, 5, 6, 8}) {
    cases.push_back({bits, 0});
    cases.push_back({bits, 1});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Widths, Hqq, ::testing::ValuesIn(hqq_cases()), [](const auto& test) {
  return fmt::format("int{}_axis{}", test.param.bits, test.param.axis);
});

TEST(BitNet, QuartersOfTheRowsAreDividedByTheScale) {
  constexpr std::int64_t kRows = 12;
  constexpr std::int64_t kCols = 20;
  const auto codes = Numbers(2).many(kRows * kCols, 4);
  Bytes bytes(kRows / 4 * kCols, 0);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCols; ++c) {
      std::uint8_t& byte = bytes[r % 3 * kCols + c];
      byte = static_cast<std::uint8_t>(byte | codes[r * kCols + c] << (2 * (r / 3)));
    }
  }
  const std::vector<std::uint16_t> scale = {0x3FB3};
  const ModelFolder model({{kWeight, "U8", {kRows / 4, kCols}, bytes},
                           {kWeight + "_scale", "BF16", {1}, bytes_of(scale)}},
                          R"({"quantization_config":{"quant_method":"bitnet"}})");
  const auto wanted = weights_of(kRows, kCols, [&](std::size_t r, std::size_t c) {
    return static_cast<float>(static_cast<int>(codes[r * kCols + c]) - 1) / bf16_value(scale[0]);
  });
  EXPECT_TRUE(same_bits(model.decoded(kWeight), wanted));
}

}  // namespace
}  // namespace vindex::commands::testing::quantised_flat_test
