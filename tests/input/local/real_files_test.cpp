// Containers as other programs write them: the shared data folder.
#include "decode/decode_matrix.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace vindex::input::real_files_test {
namespace {

const std::string kData = VINDEX_SHARED_DATA;

class RealFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kData + "/gguf")) {
      GTEST_SKIP() << "no models in " << kData;
    }
  }
};

std::string error_id(const std::string& path) {
  const std::string error = testing::error_of([&] { open_model(path); });
  return error.substr(0, error.find(' '));
}

bool warned(const ModelFiles& model, const std::string& id) {
  return std::any_of(model.warnings.begin(), model.warnings.end(),
                     [&](const Warning& warning) { return warning.id == id; });
}

const StoredTensor* find_tensor(const ModelFiles& model, const std::string& name) {
  const auto found = std::find_if(model.tensors.begin(), model.tensors.end(),
                                  [&](const StoredTensor& tensor) { return tensor.name == name; });
  return found == model.tensors.end() ? nullptr : &*found;
}

TEST_F(RealFilesTest, AFolderIsReadThroughItsIndexAndTheGgufBesideItIsNamed) {
  const ModelFiles model = open_model(kData + "/moe");
  EXPECT_EQ(model.format, ContainerFormat::kSafetensors);
  ASSERT_EQ(model.shards.size(), 3U);
  EXPECT_EQ(model.shards[1].file_name, "model-00002-of-00003.safetensors");
  EXPECT_EQ(model.shards[1].header_sha256.size(), 64U);
  EXPECT_EQ(model.tensors.size(), 129U);
  ASSERT_TRUE(model.config.has_value());
  EXPECT_NE(model.config->find("model_type"), nullptr);
  EXPECT_TRUE(warned(model, "W-FOLDER-OTHERS"));
}

TEST_F(RealFilesTest, ASplitSetWithAnEmptyFirstFileIsFoundFromAnyOfItsFiles) {
  for (const char* number : {"00001", "00004"}) {
    const ModelFiles model =
        open_model(kData + "/gguf/split/kjv-moe-Q8_0-" + number + "-of-00005.gguf");
    EXPECT_EQ(model.shards.size(), 5U);
    EXPECT_EQ(model.tensors.front().shard, 1);
    EXPECT_NE(find_key(model.keys, "general.architecture"), nullptr);
  }
}

TEST_F(RealFilesTest, SplitAndSingleFilesHoldTheSameTensors) {
  const ModelFiles split = open_model(kData + "/gguf/split");
  const ModelFiles single = open_model(kData + "/gguf/full/kjv-moe-Q4_K_M.gguf");
  ASSERT_EQ(split.tensors.size(), single.tensors.size());
  for (const StoredTensor& tensor : split.tensors) {
    const StoredTensor* other = find_tensor(single, tensor.name);
    ASSERT_NE(other, nullptr) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
  }
}

TEST_F(RealFilesTest, CompanionAndOtherFilesAreRefusedByName) {
  EXPECT_EQ(error_id(kData + "/gguf/variants/moe.imatrix.gguf"), "E-GGUF-KIND");
  EXPECT_EQ(error_id(kData + "/gguf/full"), "E-FOLDER-SEVERAL");
  EXPECT_EQ(error_id(kData + "/moe/config.json"), "E-FILE-JSON");
  EXPECT_EQ(error_id(kData + "/README.md"), "E-FILE-TEXT");
}

TEST_F(RealFilesTest, EveryOtherFileOpensAndItsTensorsLieInside) {
  std::size_t opened = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kData)) {
    const std::string path = entry.path().string();
    const std::string suffix = entry.path().extension().string();
    if ((suffix != ".gguf" && suffix != ".safetensors") ||
        path.find(".imatrix.") != std::string::npos) {
      continue;
    }
    const ModelFiles model = open_model(path);
    ++opened;
    EXPECT_FALSE(model.tensors.empty()) << path;
    for (const StoredTensor& tensor : model.tensors) {
      ByteSource& source = *model.shards[static_cast<std::size_t>(tensor.shard)].source;
      EXPECT_LE(tensor.offset + tensor.bytes, source.size()) << path << " " << tensor.name;
    }
  }
  EXPECT_GT(opened, 60U);
}

/// A file of another container, whose tensors have ggml's values in gguf/conformance.
class VariantTest : public RealFilesTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(VariantTest, GivesTheBitsOfGgml) {
  const std::string file = GetParam();
  const std::string path = kData + "/gguf/variants/" + file + ".gguf";
  const std::string type = file.substr(0, file.find('.'));
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no file " << path;
  }
  const ModelFiles model = open_model(path);
  std::size_t compared = 0;
  for (const StoredTensor& tensor : model.tensors) {
    const std::string expected = kData + "/gguf/conformance/" + type + "." + tensor.name + ".f32";
    if (!std::filesystem::exists(expected)) {
      continue;
    }
    std::vector<std::byte> codes(tensor.bytes);
    model.shards[static_cast<std::size_t>(tensor.shard)].source->read(tensor.offset, codes);
    const decode::Encoding encoding = decode::plain_encoding(tensor.type);
    decode::EncodedMatrix matrix;
    matrix.encoding = &encoding;
    matrix.cols = tensor.shape.back();
    matrix.rows = static_cast<std::int64_t>(std::filesystem::file_size(expected) / 4) / matrix.cols;
    matrix.codes = codes.data();
    matrix.row_stride_bytes = static_cast<std::int64_t>(tensor.bytes) / matrix.rows;
    std::vector<float> weights(static_cast<std::size_t>(matrix.rows * matrix.cols));
    decode::decode_matrix(matrix, weights.data(), matrix.cols);
    std::ifstream stream(expected, std::ios::binary);
    const std::string wanted((std::istreambuf_iterator<char>(stream)), {});
    ASSERT_EQ(wanted.size(), weights.size() * sizeof(float));
    std::size_t different = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      float value = 0.0F;
      std::memcpy(&value, wanted.data() + 4 * i, sizeof value);
      const bool same = std::memcmp(&value, &weights[i], sizeof value) == 0 ||
                        (std::isnan(value) && std::isnan(weights[i]));
      different += same ? 0 : 1;
    }
    EXPECT_EQ(different, 0U) << tensor.name;
    ++compared;
  }
  EXPECT_GE(compared, 1U);
}

INSTANTIATE_TEST_SUITE_P(Containers, VariantTest,
                         ::testing::Values("q4_0.v1", "q4_0.v2", "q4_K.be", "mxfp4.be"),
                         [](const auto& file) {
                           std::string name = file.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST_F(RealFilesTest, ConfigurationsLieBesideSingleFiles) {
  EXPECT_TRUE(open_model(kData + "/moe/model-00001-of-00003.safetensors").config.has_value());
  EXPECT_TRUE(open_model(kData + "/st_quant/bnb_nf4.safetensors").config.has_value());
  EXPECT_FALSE(open_model(kData + "/silero/silero_vad_16k.safetensors").config.has_value());
}

}  // namespace
}  // namespace vindex::input::real_files_test
