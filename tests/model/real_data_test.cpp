// Real models of the shared data; skipped where it is absent.
#include "model_fixture.hpp"

#include "input/model_files.hpp"
#include "input/open/open_model.hpp"

#include <filesystem>
#include <tuple>

namespace vindex::model::real_data_test {
namespace {

const std::string kData = VINDEX_SHARED_DATA;

#define VINDEX_NEEDS(path)                               \
  if (!std::filesystem::exists(path)) {                  \
    GTEST_SKIP() << "shared data not found: " << (path); \
  }

std::map<std::tuple<Block, std::string, std::int64_t, std::int64_t>, int> counts(
    const ModelIndex& index) {
  std::map<std::tuple<Block, std::string, std::int64_t, std::int64_t>, int> out;
  for (const MatrixRecord& matrix : index.matrices) {
    ++out[{matrix.block, matrix.role, matrix.rows, matrix.cols}];
    EXPECT_EQ(matrix.unsupported, "") << matrix.tensor;
  }
  return out;
}

// 4 layers (1 dense), 8 experts, hidden 256: per layer 5 attention matrices, 3 dense in layer 0;
// per mixture layer 1 router, 3 shared, 24 routed; embedding and output.
TEST(RealMixtureTest, SafetensorsCountsFollowFromTheConfiguration) {
  VINDEX_NEEDS(kData + "/moe/config.json");
  const input::ModelFiles files = input::open_model(kData + "/moe");
  const ModelIndex index = index_model(files);
  EXPECT_EQ(index.matrices.size(), 4U * 5 + 3 + 3 * (1 + 3 + 24) + 2);
  auto count = counts(index);
  EXPECT_EQ((count[{Block::kAttention, "q_b_proj", 384, 256}]), 4);
  EXPECT_EQ((count[{Block::kAttention, "kv_a_proj", 288, 256}]), 4);
  EXPECT_EQ((count[{Block::kAttention, "kv_b_proj", 512, 256}]), 4);
  EXPECT_EQ((count[{Block::kDenseMlp, "down_proj", 256, 512}]), 1);
  EXPECT_EQ((count[{Block::kRouter, "router", 8, 256}]), 3);
  EXPECT_EQ((count[{Block::kRoutedExpert, "gate_proj", 256, 256}]), 24);
  EXPECT_EQ((count[{Block::kSharedExpert, "up_proj", 256, 256}]), 3);
  EXPECT_TRUE(index.warnings.empty());
  EXPECT_EQ(index.shape.layers, 4);
  EXPECT_EQ(index.shape.experts, 8);
  EXPECT_EQ(index.shape.experts_per_token, 2);
  EXPECT_EQ(index.shape.shared_experts, 1);
  EXPECT_EQ(index.shape.dense_first_layers, 1);
}

// The same weights, but kv_b is stored as one k_b and one v_b per head: 4 layers x (2 x 4 - 1)
// more.
TEST(RealMixtureTest, GgufFilesHoldOneMatrixPerHeadAndExpert) {
  for (const char* name : {"/moe/kjv-moe-7.6M-BF16.gguf", "/gguf/full/kjv-moe-Q4_K_M.gguf",
                           "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf"}) {
    SCOPED_TRACE(name);
    VINDEX_NEEDS(kData + name);
    const input::ModelFiles files = input::open_model(kData + name);
    const ModelIndex index = index_model(files);
    EXPECT_EQ(index.matrices.size(), 109U + 4 * 7);
    auto count = counts(index);
    EXPECT_EQ((count[{Block::kAttention, "k_b_proj", 256, 64}]), 16);
    EXPECT_EQ((count[{Block::kAttention, "v_b_proj", 64, 256}]), 16);
    EXPECT_EQ((count[{Block::kRoutedExpert, "down_proj", 256, 256}]), 24);
    EXPECT_TRUE(index.warnings.empty());
    EXPECT_EQ(index.shape.experts, 8);
    EXPECT_EQ(index.shape.dense_first_layers, 1);
  }
}

TEST(RealMixtureTest, EverySliceLiesInsideItsTensor) {
  VINDEX_NEEDS(kData + "/gguf/full/kjv-moe-Q4_K_M.gguf");
  const input::ModelFiles files = input::open_model(kData + "/gguf/full/kjv-moe-Q4_K_M.gguf");
  for (const MatrixRecord& matrix : index_model(files).matrices) {
    const input::StoredTensor& tensor =
        files.tensors[static_cast<std::size_t>(matrix.codes.tensor)];
    EXPECT_GE(matrix.codes.offset, tensor.offset);
    EXPECT_LE(matrix.codes.offset + matrix.codes.bytes, tensor.offset + tensor.bytes);
  }
}

TEST(RealLlamaTest, StoriesHaveSevenMatricesPerLayer) {
  VINDEX_NEEDS(kData + "/stories260k/stories260K.gguf");
  const input::ModelFiles files = input::open_model(kData + "/stories260k/stories260K.gguf");
  const ModelIndex index = index_model(files);
  auto count = counts(index);
  EXPECT_EQ(index.matrices.size(), 5U * 7 + 2);
  EXPECT_EQ((count[{Block::kAttention, "k_proj", 32, 64}]), 5);
  EXPECT_EQ((count[{Block::kDenseMlp, "down_proj", 64, 172}]), 5);
  EXPECT_TRUE(index.warnings.empty());
}

TEST(RealSileroTest, OnlyTheRecurrentWeightsAreMatrices) {
  VINDEX_NEEDS(kData + "/silero/silero_vad_16k.safetensors");
  const input::ModelFiles files = input::open_model(kData + "/silero/silero_vad_16k.safetensors");
  const ModelIndex index = index_model(files);
  ASSERT_EQ(index.matrices.size(), 2U);
  EXPECT_EQ(describe(index.matrices[0]), "-1/other/weight_hh/-1/-1 512x128");
  EXPECT_EQ(describe(index.matrices[1]), "-1/other/weight_ih/-1/-1 512x128");
  EXPECT_EQ(find_tensor(index, "final_conv.weight")->reason, "convolution");
}

TEST(RealSchemesTest, EveryCheckpointIsOneWeightUnderItsLogicalName) {
  struct Case {
    std::string file, label;
    std::int64_t rows, cols;
  };
  for (const Case& c :
       {Case{"fp8_block128", "F8_E4M3/128x128", 200, 256},
        Case{"ct_pack_int4_g32", "INT4/g32", 128, 256},
        Case{"ct_pack_int8_g128", "INT8/g128", 128, 256},
        Case{"ct_pack_int4_g32_asym", "INT4/g32/asym", 128, 256},
        Case{"gptq_int4", "INT4/g64/gptq", 128, 256},
        Case{"awq_int4_g64", "INT4/g64/awq", 128, 256}, Case{"bnb_nf4", "NF4/g64", 128, 256},
        Case{"bnb_fp4", "FP4/g64", 128, 256}, Case{"bnb_int8", "INT8/row", 128, 256},
        Case{"hqq_8bit", "INT8/g64/hqq", 128, 256}, Case{"hqq_4bit", "INT4/g64/hqq", 128, 256},
        Case{"hqq_2bit", "INT2/g64/hqq", 128, 256}, Case{"hqq_1bit", "INT1/g64/hqq", 128, 256},
        Case{"modelopt_nvfp4", "NVFP4", 128, 256}, Case{"gptoss_mxfp4", "MXFP4", 64, 256}}) {
    SCOPED_TRACE(c.file);
    const std::string path = kData + "/st_quant/" + c.file + ".safetensors";
    VINDEX_NEEDS(path);
    const input::ModelFiles files = input::open_model(path);
    const ModelIndex index = index_model(files);
    const std::size_t slices = c.file == "gptoss_mxfp4" ? 2 : 1;
    ASSERT_EQ(index.matrices.size(), slices);
    const MatrixRecord& matrix = index.matrices[0];
    EXPECT_EQ(matrix.block, Block::kRoutedExpert);
    EXPECT_EQ(matrix.layer, 1);
    EXPECT_EQ(matrix.expert, 0);
    EXPECT_EQ(matrix.encoding.label, c.label);
    EXPECT_EQ(matrix.rows, c.rows);
    EXPECT_EQ(matrix.cols, c.cols);
    EXPECT_EQ(matrix.unsupported, "");
    const input::ModelFiles expected =
        input::open_model(kData + "/st_quant/" + c.file + ".expected.safetensors");
    EXPECT_EQ(expected.tensors.at(0).name, matrix.tensor);
  }
}

}  // namespace
}  // namespace vindex::model::real_data_test
