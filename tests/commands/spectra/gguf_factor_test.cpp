// NVFP4 in GGUF files: the factor beside the blocks is part of the weight, in every command.
#include "tests/support/gguf_builder.hpp"
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <bit>
#include <fstream>
#include <random>

namespace vindex::testing::gguf_factor_test {
namespace {

constexpr std::uint32_t kNvfp4 = 40;
constexpr std::size_t kBlockBytes = 36;
constexpr std::uint64_t kCols = 64, kRows = 48, kExperts = 3;

std::string float_bytes(const GgufBuilder& builder, const std::vector<float>& values) {
  std::string out;
  for (const float value : values) {
    out += builder.number(std::bit_cast<std::uint32_t>(value));
  }
  return out;
}

class GgufFactorTest : public ProgramTest {
 protected:
  /// A stack of experts and one matrix, with these factors (none where empty).
  std::string model(const std::vector<float>& stack, const std::vector<float>& matrix,
                    std::uint32_t factor_type = 0, bool big_endian = false) {
    GgufBuilder builder(3, big_endian);
    builder.key_string("general.architecture", "qwen3moe");
    std::mt19937 random(5);
    const auto add = [&](const std::string& name, const std::vector<std::uint64_t>& dimensions,
                         std::uint32_t type, std::string bytes) {
      builder.tensor(name, dimensions, type, builder.data.size());
      bytes.resize((bytes.size() + 31) / 32 * 32, '\0');
      builder.data += bytes;
    };
    const auto blocks = [&](std::size_t count) {
      std::string bytes;
      for (std::size_t i = 0; i < count * kBlockBytes; ++i) {
        // Scales of ordinary size, any codes.
        bytes.push_back(static_cast<char>(i % kBlockBytes < 4 ? 0x30 + random() % 16 : random()));
      }
      return bytes;
    };
    add("blk.0.ffn_up_exps.weight", {kCols, kRows, kExperts}, kNvfp4, blocks(kRows * kExperts));
    add("blk.0.attn_output.weight", {kCols, kRows}, kNvfp4, blocks(kRows));
    const auto factor = [&](const std::string& name, const std::vector<float>& values) {
      if (!values.empty()) {
        add(name, {values.size()}, factor_type, float_bytes(builder, values));
        add(name.substr(0, name.size() - 5) + "input_scale", {1}, 0, float_bytes(builder, {9.0F}));
      }
    };
    factor("blk.0.ffn_up_exps.scale", stack);
    factor("blk.0.attn_output.scale", matrix);
    const std::string path = folder_.file("nvfp4.gguf");
    std::ofstream(path, std::ios::binary) << builder.bytes();
    return path;
  }
};

TEST_F(GgufFactorTest, EachExpertHasItsOwn) {
  const std::string stack = "blk.0.ffn_up_exps.weight", matrix = "blk.0.attn_output.weight";
  const std::vector<float> plain_stack = decoded(model({}, {}), stack);
  const std::vector<float> plain_matrix = decoded(model({}, {}), matrix);
  ASSERT_EQ(plain_stack.size(), kCols * kRows * kExperts);
  const std::vector<float> factors = {0.3F, 1.7e-3F, -2.0F};
  for (const bool big_endian : {false, true}) {
    const std::string path = model(factors, {0.7F}, 0, big_endian);
    const std::vector<float> got = decoded(path, stack);
    ASSERT_EQ(got.size(), plain_stack.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], plain_stack[i] * factors[i / (kCols * kRows)]) << i;
    }
    const std::vector<float> second = decoded(path, stack, 1);
    EXPECT_TRUE(std::equal(second.begin(), second.end(), got.begin() + kCols * kRows));
    const std::vector<float> other = decoded(path, matrix);
    for (std::size_t i = 0; i < other.size(); ++i) {
      ASSERT_EQ(other[i], plain_matrix[i] * 0.7F) << i;
    }
  }
}

TEST_F(GgufFactorTest, OneFactorServesAWholeStack) {
  const std::string stack = "blk.0.ffn_up_exps.weight";
  const std::vector<float> plain = decoded(model({}, {}), stack);
  const std::vector<float> got = decoded(model({0.25F}, {}), stack);
  ASSERT_EQ(got.size(), plain.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], plain[i] * 0.25F) << i;
  }
}

TEST_F(GgufFactorTest, MeasuredSpectraAreScaled) {
  const auto before = read_rows(measured(model({}, {}), "before"));
  const auto after = read_rows(measured(model({0.5F, 3.0F, 1.0F}, {4.0F}), "after"));
  ASSERT_EQ(before.size(), kExperts + 1);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].encoding, "NVFP4");
    const double factors[] = {0.5, 3.0, 1.0};
    const double factor = after[i].expert < 0 ? 4.0 : factors[after[i].expert];
    EXPECT_NEAR(after[i].frobenius_norm, factor * before[i].frobenius_norm,
                1e-6 * before[i].frobenius_norm);
  }
}

TEST_F(GgufFactorTest, FactorsAreNoTensorsOfTheirOwn) {
  const ProgramResult result = run({"inspect", model({1, 2, 3}, {4}), "--tensors", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["matrices"], kExperts + 1);
  EXPECT_EQ(json["tensor_list"].size(), 2U);
}

// Two factors for three experts, or a factor of another type: that tensor is unsupported, the rest
// is measured, and the end is 65.
TEST_F(GgufFactorTest, FactorsThatDoNotFitMakeTheirRowsUnsupported) {
  for (const std::string& path : {model({1, 2}, {4}), model({1, 2, 3}, {4}, 26)}) {
    const ProgramResult decode = run(
        {"decode", path, "--tensor", "blk.0.ffn_up_exps.weight", "-o", folder_.file("never.f32")});
    EXPECT_EQ(decode.exit_code, 65) << decode.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("never.f32")));
  }
  measured(model({1, 2}, {4}), "partly", {}, 65);
}

}  // namespace
}  // namespace vindex::testing::gguf_factor_test
