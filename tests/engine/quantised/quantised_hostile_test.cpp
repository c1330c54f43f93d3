// Broken sets of quantised tensors: each is refused with its reason, none is guessed, none crashes.
#include "quantised_support.hpp"

#include <fmt/format.h>

namespace vindex::commands::testing::quantised_hostile_test {
namespace {

std::vector<TestTensor> gptq() {
  return {{kBase + ".qweight", "I32", {8, 32}, Bytes(8 * 32 * 4, 0x55)},
          {kBase + ".qzeros", "I32", {2, 4}, Bytes(2 * 4 * 4, 0x55)},
          {kBase + ".scales", "F16", {2, 32}, Bytes(2 * 32 * 2, 0x20)},
          {kBase + ".g_idx", "I32", {64}, Bytes(64 * 4, 0)}};
}

std::string gptq_config(const std::string& more = "") {
  return R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32)" + more + "}}";
}

/// `tensors` with the one called `name` changed.
std::vector<TestTensor> with(std::vector<TestTensor> tensors, const TestTensor& changed) {
  for (TestTensor& tensor : tensors) {
    if (tensor.name == changed.name) {
      tensor = changed;
    }
  }
  return tensors;
}

std::vector<TestTensor> without(std::vector<TestTensor> tensors, const std::string& name) {
  std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
  return tensors;
}

void expect_refusal(const std::vector<TestTensor>& tensors, const std::string& config,
                    const std::string& reason) {
  const std::string refusal = ModelFolder(tensors, config).refusal(kWeight);
  EXPECT_NE(refusal.find(reason), std::string::npos) << refusal << "\n  wanted: " << reason;
}

TEST(HostileGptq, TheWholeSetIsAccepted) {
  EXPECT_EQ(ModelFolder(gptq(), gptq_config()).decoded(kWeight).size(), 32U * 64U);
}

TEST(HostileGptq, MissingMisshapenAndMistypedPartsAreNamed) {
  expect_refusal(without(gptq(), kBase + ".scales"), gptq_config(), "scale missing");
  expect_refusal(without(gptq(), kBase + ".qzeros"), gptq_config(), "qzeros");
  expect_refusal(without(gptq(), kBase + ".g_idx"), gptq_config(R"(,"desc_act":true)"),
                 "group indices missing");
  expect_refusal(with(gptq(), {kBase + ".qzeros", "I32", {2, 3}, Bytes(24, 0)}), gptq_config(),
                 "codes misshapen");
  expect_refusal(with(gptq(), {kBase + ".qzeros", "I32", {1, 4}, Bytes(16, 0)}), gptq_config(),
                 "groups of 32 zero points");
  expect_refusal(with(gptq(), {kBase + ".scales", "I16", {2, 32}, Bytes(128, 0)}), gptq_config(),
                 "wrong type");
  expect_refusal(with(gptq(), {kBase + ".g_idx", "I32", {63}, Bytes(252, 0)}), gptq_config(),
                 "64 group indices are needed");
  expect_refusal(with(gptq(), {kBase + ".g_idx", "I64", {64}, Bytes(512, 0)}), gptq_config(),
                 "wrong type");
  expect_refusal(with(gptq(), {kBase + ".scales", "F16", {0, 32}, {}}), gptq_config(), "misshapen");
}

TEST(HostileGptq, GroupIndicesThatNameNoGroup) {
  for (const std::int32_t group : {2, -1, 1 << 30, std::numeric_limits<std::int32_t>::min()}) {
    std::vector<std::int32_t> indices(64, 0);
    indices[40] = group;
    expect_refusal(with(gptq(), {kBase + ".g_idx", "I32", {64}, bytes_of(indices)}), gptq_config(),
                   "group index " + std::to_string(group) + " of column 40");
  }
}

TEST(HostileGptq, OtherLayoutsAreRefusedByName) {
  for (const std::string& config :
       {gptq_config(R"(,"checkpoint_format":"marlin")"), gptq_config(R"(,"is_marlin_format":true)"),
        gptq_config(R"(,"checkpoint_format":"gptq_p")")}) {
    const std::string name = config.find("gptq_p") == std::string::npos ? "marlin" : "gptq_p";
    expect_refusal(gptq(), config, "scheme not supported: INT/" + name);
  }
  expect_refusal(gptq(),
                 R"({"quantization_config":{"quant_method":"awq","bits":4,"version":"gemv"}})",
                 "gemv");
  expect_refusal(
      gptq(),
      R"({"quantization_config":{"quant_method":"auto-round","packing_format":"auto_round:x"}})",
      "auto_round:x");
}

TEST(HostileGptq, WidthsThatAreNoneAreRefused) {
  // Zero points of 5 bits: 32 outputs in 5 words.
  expect_refusal(with(with(gptq(), {kBase + ".qzeros", "I32", {2, 5}, Bytes(40, 0)}),
                      {kBase + ".qweight", "I32", {10, 32}, Bytes(10 * 32 * 4, 0)}),
                 gptq_config(), "INT5/g32/gptq");
}

std::vector<TestTensor> packed() {
  return {{kWeight + "_packed", "I32", {8, 8}, Bytes(256, 0x77)},
          {kWeight + "_scale", "BF16", {8, 2}, Bytes(32, 0x3C)},
          {kWeight + "_shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{8, 64})},
          {kWeight + "_zero_point", "I32", {1, 2}, Bytes(8, 0x11)},
          {kWeight + "_g_idx", "I32", {64}, Bytes(256, 0)}};
}

TEST(HostilePackedInt, PartsAreChecked) {
  const std::string config = "{}";
  EXPECT_EQ(ModelFolder(packed()).decoded(kWeight).size(), 512U);
  expect_refusal(with(packed(), {kWeight + "_zero_point", "I32", {2, 2}, Bytes(16, 0)}), config,
                 "words of zero points are needed");
  expect_refusal(with(packed(), {kWeight + "_zero_point", "I8", {8, 2}, Bytes(16, 0)}), config,
                 "wrong type");
  std::vector<std::int32_t> indices(64, 0);
  indices[9] = 2;
  expect_refusal(with(packed(), {kWeight + "_g_idx", "I32", {64}, bytes_of(indices)}), config,
                 "group index 2 of column 9");
  indices[9] = -1;
  expect_refusal(with(packed(), {kWeight + "_g_idx", "I32", {64}, bytes_of(indices)}), config,
                 "1 of 64 are negative");
}

std::vector<TestTensor> nested(const std::string& state) {
  return {{kWeight, "U8", {64, 1}, Bytes(64, 0x5A)},
          {kWeight + ".absmax", "U8", {2}, Bytes(2, 7)},
          {kWeight + ".quant_map", "F32", {16}, Bytes(64, 0)},
          {kWeight + ".nested_absmax", "F32", {1}, Bytes(4, 0)},
          {kWeight + ".nested_quant_map", "F32", {256}, Bytes(1024, 0)},
          {kWeight + ".quant_state.bitsandbytes__nf4",
           "U8",
           {static_cast<std::int64_t>(state.size())},
           Bytes(state.begin(), state.end())}};
}

TEST(HostileBitsandbytes, QuantStateIsNotBelieved) {
  const auto state = [](const std::string& shape, const std::string& rest) {
    return R"({"quant_type":"nf4","shape":)" + shape + rest + "}";
  };
  const std::string good = R"(,"blocksize":64,"nested_blocksize":256,"nested_offset":0.5)";
  EXPECT_EQ(ModelFolder(nested(state("[2,64]", good))).decoded(kWeight).size(), 128U);
  for (const auto& [text, reason] : std::vector<std::pair<std::string, std::string>>{
           {state("[2,64]", R"(,"blocksize":0)"), "no usable shape and blocksize"},
           {state("[2]", good), "no usable shape and blocksize"},
           {state("[0,64]", good), "no usable shape and blocksize"},
           {state("[-2,64]", good), "no usable shape and blocksize"},
           {state("[2147483647,2147483647]", good), "elements are needed"},
           {state("[4294967296,64]", good), "no usable shape and blocksize"},
           {state("[3,64]", good), "elements are needed"},
           {state("[2,66]", good), "elements are needed"},
           {state("[2,62]", good), "size contradicts the shape"},
           {state("[2,64]", R"(,"blocksize":64)"), "nested_blocksize"},
           {R"({"quant_type":"af4","blocksize":64,"shape":[2,64]})", "INT4/af4"},
           {"{\"quant_type\"", "quant_state unreadable"},
           {"", "quant_state"}}) {
    expect_refusal(nested(text), "{}", reason);
  }
  expect_refusal(without(nested(state("[2,64]", good)), kWeight + ".quant_map"), "{}",
                 "companion missing");
  expect_refusal(without(nested(state("[2,64]", good)), kWeight + ".nested_absmax"), "{}",
                 "companion missing");
}

std::vector<TestTensor> hqq(std::int32_t bits, std::int32_t group, std::int32_t axis,
                            std::int64_t rows, std::int64_t cols) {
  const auto number = [](std::int32_t value) { return bytes_of(std::vector<std::int32_t>{value}); };
  return {{kBase + ".W_q", "U8", {8, 32}, Bytes(256, 0x31)},
          {kBase + ".scale", "F16", {16, 1}, Bytes(32, 0x20)},
          {kBase + ".zero", "F16", {16, 1}, Bytes(32, 0x20)},
          {kBase + ".nbits", "I32", {}, number(bits)},
          {kBase + ".group_size", "I32", {}, number(group)},
          {kBase + ".axis", "I32", {}, number(axis)},
          {kBase + ".shape", "I64", {2}, bytes_of(std::vector<std::int64_t>{rows, cols})}};
}

TEST(HostileHqq, NumbersBesideTheCodesAreNotBelieved) {
  EXPECT_EQ(ModelFolder(hqq(4, 32, 1, 8, 64)).decoded(kWeight).size(), 512U);
  expect_refusal(hqq(0, 32, 1, 8, 64), "{}", "nbits 0");
  expect_refusal(hqq(9, 32, 1, 8, 64), "{}", "nbits 9");
  expect_refusal(hqq(7, 32, 1, 8, 64), "{}", "size contradicts");
  expect_refusal(hqq(4, 0, 1, 8, 64), "{}", "group_size 0");
  expect_refusal(hqq(4, -32, 1, 8, 64), "{}", "group_size -32");
  expect_refusal(hqq(4, 33, 1, 8, 64), "{}", "group_size 33");
  expect_refusal(hqq(4, 32, 2, 8, 64), "{}", "axis unusable");
  expect_refusal(hqq(4, 32, 1, -8, 64), "{}", "shape or axis unusable");
  expect_refusal(hqq(4, 32, 1, std::int64_t{1} << 40, 64), "{}", "shape or axis unusable");
  expect_refusal(hqq(4, 32, 1, 16, 64), "{}", "elements are needed");
  expect_refusal(without(hqq(4, 32, 1, 8, 64), kBase + ".zero"), "{}", "scale missing");
  auto packing = hqq(4, 32, 1, 8, 64);
  packing.push_back({kBase + ".packing", "U8", {6}, {'4', 'b', 'i', 't', '_', 'x'}});
  expect_refusal(packing, "{}", "4bit_x");
}

TEST(HostileFp4, ScalesOfAnotherShapeOrTypeAreRefused) {
  const TestTensor codes{kWeight + "_packed", "U8", {4, 32}, Bytes(128, 0x12)};
  expect_refusal({codes}, "{}", "scale missing");
  expect_refusal({codes, {kWeight + "_scale", "U8", {4, 4}, Bytes(16, 127)}}, "{}",
                 "4x2 scales are needed");
  expect_refusal({codes, {kWeight + "_scale", "F8_E4M3", {4, 4}, Bytes(16, 56)}}, "{}",
                 "scale missing: " + kBase + ".weight_global_scale");
  expect_refusal({codes,
                  {kWeight + "_scale", "F8_E4M3", {4, 4}, Bytes(16, 56)},
                  {kWeight + "_global_scale", "F32", {2}, Bytes(8, 0)}},
                 "{}", "one number is needed");
  expect_refusal({codes,
                  {kWeight + "_scale", "F8_E4M3", {4, 4}, Bytes(16, 56)},
                  {kWeight + "_global_scale", "BF16", {1}, Bytes(2, 0)}},
                 "{}", "wrong type");
}

TEST(HostileFp4, IntegersOfModelOptAreNamed) {
  expect_refusal({{kWeight, "U8", {4, 32}, Bytes(128, 0x12)},
                  {kWeight + "_scale", "BF16", {8, 1}, Bytes(16, 0x3C)}},
                 R"({"quantization":{"quant_algo":"W4A16_AWQ","group_size":32}})",
                 "scheme not supported: INT4/W4A16_AWQ");
}

TEST(HostileInt8, TiledLayoutAndMissingScalesAreRefused) {
  const TestTensor codes{kWeight, "I8", {4, 32}, Bytes(128, 3)};
  expect_refusal({codes,
                  {kBase + ".SCB", "F32", {4}, Bytes(16, 0)},
                  {kBase + ".weight_format", "U8", {}, {2}}},
                 "{}", "weight_format 2");
  expect_refusal({codes, {kBase + ".SCB", "F32", {5}, Bytes(20, 0)}}, "{}", "elements are needed");
  expect_refusal({codes, {kBase + ".SCB", "F16", {4}, Bytes(8, 0)}}, "{}", "wrong type");
}

TEST(HostileMlx, BiasesMustMatch) {
  const std::string config = R"({"quantization":{"bits":4,"group_size":32}})";
  const TestTensor codes{kWeight, "U32", {4, 8}, Bytes(128, 3)};
  const TestTensor scales{kBase + ".scales", "BF16", {4, 2}, Bytes(16, 0x3C)};
  expect_refusal({codes, scales}, config, "scale missing: " + kBase + ".biases");
  expect_refusal({codes, scales, {kBase + ".biases", "BF16", {4, 1}, Bytes(8, 0)}}, config,
                 "one beside each scale");
  expect_refusal({codes, scales, {kBase + ".biases", "BF16", {4, 2}, Bytes(16, 0)}},
                 R"({"quantization":{"bits":7}})", "INT/mlx");
}

}  // namespace
}  // namespace vindex::commands::testing::quantised_hostile_test
