// Bit equality with values decoded by the formats' own projects: ggml for GGUF blocks,
// compressed-tensors and the DeepSeek reference for safetensors (see the data folder's README).
#include "conformance_files.hpp"
#include "decode_support.hpp"

#include <string>

namespace vindex::decode::testing::conformance_test {
namespace {

std::string lower_prefix(std::string_view name) {
  // Files are named q4_K.gguf, f16.gguf, iq2_xxs.gguf: lower case but for a final K.
  std::string text(name);
  for (char& c : text) {
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  if (text.ends_with("_k")) {
    text.back() = 'K';
  }
  return text;
}

std::vector<ElementType> stored_gguf_types() {
  std::vector<ElementType> types;
  for (const ElementTypeRow& row : element_type_rows()) {
    if (row.ggml_id >= 0) {
      types.push_back(row.type);
    }
  }
  return types;
}

TEST(Conformance, EveryStoredGgufTypeIsDecodable) {
  EXPECT_EQ(stored_gguf_types().size(), 33U);
  for (const ElementType type : stored_gguf_types()) {
    EXPECT_TRUE(is_decodable(plain_encoding(type))) << element_type_row(type).name;
  }
}

class GgufType : public ::testing::TestWithParam<ElementType> {};

TEST_P(GgufType, GivesTheBitsOfGgml) {
  const auto folder = shared_data() / "gguf" / "conformance";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no conformance files at " << folder;
  }
  const Encoding encoding = plain_encoding(GetParam());
  const std::string prefix = lower_prefix(encoding.label);
  const auto stored = folder / (prefix + ".gguf");
  if (!std::filesystem::exists(stored)) {
    GTEST_SKIP() << "no conformance file " << stored;
  }
  const TensorFile file = read_gguf(stored);
  int compared = 0;
  for (const auto& [name, tensor] : file.tensors) {
    const auto expected = folder / (prefix + "." + name + ".f32");
    if (tensor.type != GetParam() || !std::filesystem::exists(expected)) {
      continue;
    }
    SCOPED_TRACE(name);
    const std::vector<float> wanted = read_floats(expected);
    const EncodedMatrix matrix = matrix_of(encoding, tensor, tensor.cols());
    for (const SimdLevel level : supported_levels()) {
      EXPECT_TRUE(same_weights(decoded_at(level, matrix), wanted)) << simd_level_name(level);
    }
    EXPECT_TRUE(same_weights(decoded_one_by_one(matrix), wanted)) << "one by one";
    ++compared;
  }
  EXPECT_GE(compared, 2) << "every type has values of at least two tensors";
}

INSTANTIATE_TEST_SUITE_P(Conformance, GgufType, ::testing::ValuesIn(stored_gguf_types()),
                         [](const auto& type) {
                           return std::string(element_type_row(type.param).name);
                         });

class SafetensorsCase : public ::testing::TestWithParam<const char*> {};

// Finds `base`.weight in the expected file and its codes and scales in the other.
TEST_P(SafetensorsCase, GivesTheBitsOfItsOwnProject) {
  const auto folder = shared_data() / "st_quant";
  const std::string name = GetParam();
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no quantised checkpoints at " << folder;
  }
  const TensorFile stored = read_safetensors(folder / (name + ".safetensors"));
  const TensorFile expected = read_safetensors(folder / (name + ".expected.safetensors"));
  int compared = 0;
  for (const auto& [weight_name, wanted_tensor] : expected.tensors) {
    SCOPED_TRACE(weight_name);
    const std::int64_t cols = wanted_tensor.cols();
    Encoding encoding;
    EncodedMatrix matrix;
    if (stored.tensors.contains(weight_name + "_scale_inv")) {
      encoding = fp8_block_encoding(128, 128);
      matrix = matrix_of(encoding, stored.tensors.at(weight_name), cols);
      add_scales(matrix, stored.tensors.at(weight_name + "_scale_inv"));
    } else if (stored.tensors.contains(weight_name + "_packed")) {
      const FileTensor& scales = stored.tensors.at(weight_name + "_scale");
      const FileTensor& codes = stored.tensors.at(weight_name + "_packed");
      encoding = packed_int_encoding(static_cast<std::int32_t>(codes.cols() * 32 / cols),
                                     static_cast<std::int32_t>(cols / scales.cols()));
      matrix = matrix_of(encoding, codes, cols);
      add_scales(matrix, scales);
    } else {
      continue;
    }
    std::vector<float> wanted(static_cast<std::size_t>(matrix.rows * matrix.cols));
    ASSERT_EQ(wanted_tensor.type, ElementType::kF32);
    ASSERT_EQ(wanted_tensor.bytes.size(), wanted.size() * sizeof(float));
    std::memcpy(wanted.data(), wanted_tensor.bytes.data(), wanted_tensor.bytes.size());
    for (const SimdLevel level : supported_levels()) {
      EXPECT_TRUE(same_weights(decoded_at(level, matrix), wanted)) << simd_level_name(level);
    }
    ++compared;
  }
  EXPECT_GE(compared, 1);
}

INSTANTIATE_TEST_SUITE_P(Quantised, SafetensorsCase,
                         ::testing::Values("fp8_block128", "ct_pack_int4_g32", "ct_pack_int8_g128"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace vindex::decode::testing::conformance_test
