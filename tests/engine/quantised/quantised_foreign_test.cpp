// Schemes that are not read: each is refused with its name, whatever of its tensors looks like a
// weight, and none of its parts is a matrix of its own. Layouts as the packages write them.
#include "quantised_support.hpp"

#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"

#include <fmt/format.h>

namespace vindex::commands::testing::quantised_foreign_test {
namespace {

struct Part {
  std::string suffix;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

struct Foreign {
  std::string name;    ///< of the case
  std::string config;  ///< members of quantization_config
  std::vector<Part> parts;
  std::string scheme;  ///< what the refusal must name
};

void PrintTo(const Foreign& foreign, std::ostream* out) { *out << foreign.name; }

std::int64_t width_of(const std::string& dtype) {
  return dtype.ends_with("64") ? 8 : dtype.ends_with("32") ? 4 : dtype.ends_with("16") ? 2 : 1;
}

std::vector<TestTensor> tensors_of(const std::vector<Part>& parts) {
  std::vector<TestTensor> tensors;
  for (const Part& part : parts) {
    std::int64_t bytes = width_of(part.dtype);
    for (const std::int64_t side : part.shape) {
      bytes *= side;
    }
    tensors.push_back({kBase + part.suffix, part.dtype, part.shape,
                       Bytes(static_cast<std::size_t>(bytes), 0x11)});
  }
  tensors.push_back({"model.layers.1.input_layernorm.weight", "F32", {4}, Bytes(16, 0)});
  return tensors;
}

const std::vector<Part> kGptq = {{".qweight", "I32", {8, 64}},
                                 {".qzeros", "I32", {2, 8}},
                                 {".scales", "F16", {2, 64}},
                                 {".g_idx", "I32", {64}}};
const std::vector<Part> kAwq = {
    {".qweight", "I32", {64, 8}}, {".qzeros", "I32", {2, 8}}, {".scales", "F16", {2, 64}}};

std::vector<Part> with(std::vector<Part> parts, const std::vector<Part>& more) {
  parts.insert(parts.end(), more.begin(), more.end());
  return parts;
}

std::string gptq(const std::string& more) {
  return R"("quant_method":"gptq","bits":4,"group_size":32,)" + more;
}
std::string awq(const std::string& more) {
  return R"("quant_method":"awq","bits":4,"group_size":32,)" + more;
}
std::string method(const std::string& name) { return R"("quant_method":")" + name + '"'; }

std::vector<Foreign> cases() {
  const std::vector<Part> sinq = {{".W_q", "U8", {32, 64}},    {".scale", "F16", {64, 2}},
                                  {".scale2", "F16", {1, 64}}, {".zero", "F16", {64, 2}},
                                  {".nbits", "I32", {}},       {".axis", "I32", {}},
                                  {".shape", "I64", {2}}};
  const std::vector<Part> aqlm = {{".codes", "I16", {64, 8, 1}},
                                  {".codebooks", "F16", {1, 256, 1, 8}},
                                  {".scales", "F16", {64, 1, 1, 1}}};
  const std::vector<Part> exl3 = {
      {".trellis", "I16", {4, 4, 64}}, {".suh", "F16", {64}}, {".svh", "F16", {64}}};
  const std::vector<Part> quanto = {{".weight._data", "I8", {64, 64}},
                                    {".weight._scale", "F16", {64, 1}},
                                    {".input_scale", "F32", {}}};
  const std::vector<Part> torchao = {{"._weight_qdata", "I8", {64, 64}},
                                     {"._weight_scale", "F16", {64, 1}}};
  return {
      {"GptqPlanar", gptq(R"("checkpoint_format":"gptq_p")"), kGptq, "gptq_p"},
      {"GptqPlanarByFormat", gptq(R"("method":"gptq","format":"gptq_p")"), kGptq, "gptq_p"},
      {"GptqPlanarByMeta", gptq(R"("meta":{"checkpoint_format":"gptq_p"})"), kGptq, "gptq_p"},
      {"GptqMarlin", gptq(R"("checkpoint_format":"marlin")"), kGptq, "marlin"},
      {"GptqIsMarlin", gptq(R"("is_marlin_format":true)"), kGptq, "marlin"},
      {"GptqLater", gptq(R"("checkpoint_format":"gptq_v3")"), kGptq, "gptq_v3"},
      {"GptqBitblas",
       gptq(R"("checkpoint_format":"bitblas")"),
       {{".qweight", "I8", {64, 32}}, {".scales", "F16", {64, 2}}, {".zeros", "F16", {64, 2}}},
       "bitblas"},
      {"AwqGemv", awq(R"("version":"gemv")"), kAwq, "gemv"},
      {"AwqGemvByFormat", awq(R"("format":"gemv")"), kAwq, "gemv"},
      {"AwqGemvFast",
       awq(R"("version":"gemv_fast")"),
       {{".qweight", "I16", {16, 64}}, {".qzeros", "F16", {8, 64}}, {".scales", "F16", {8, 64}}},
       "gemv_fast"},
      {"AwqMarlin", awq(R"("version":"marlin")"), kAwq, "marlin"},
      {"AwqExllama", awq(R"("version":"exllama")"), kAwq, "exllama"},
      {"LlmAwq",
       awq(R"("version":"gemm","backend":"llm-awq")"),
       {{".qweight", "I16", {16, 64}},
        {".scaled_zeros", "F16", {8, 64}},
        {".scales", "F16", {8, 64}}},
       "llm-awq"},
      {"AutoRound", R"("quant_method":"auto-round","packing_format":"auto_round:new")", kGptq,
       "auto_round:new"},
      {"ParoQuant", method("paroquant"),
       with(kAwq, {{".theta", "F16", {2, 32}}, {".channel_scales", "F16", {64}}}), "paroquant"},
      {"Marlin", method("marlin"), {{".B", "I32", {4, 128}}, {".s", "F16", {2, 64}}}, "marlin"},
      {"Marlin24Compressed",
       R"("quant_method":"compressed-tensors","format":"marlin-24")",
       {{".weight_packed", "I32", {3, 128}},
        {".scale_packed", "F16", {3, 64}},
        {".meta", "I16", {64, 6}}},
       "marlin-24"},
      {"Sparse24",
       R"("quant_method":"compressed-tensors","sparsity_config":{"format":"sparse-24-bitmask"})",
       {{".compressed", "F16", {64, 32}}, {".bitmask", "U8", {64, 8}}, {".shape", "I64", {2}}},
       "sparse-24-bitmask"},
      {"Mxfp6",
       R"("quant_method":"compressed-tensors","format":"mxfp6-pack-quantized")",
       {{".weight_packed", "U8", {64, 48}}, {".weight_scale", "U8", {64, 2}}},
       "MXFP6"},
      {"Qqq", method("qqq"), {{".B", "I32", {4, 128}}, {".s_group", "F16", {2, 64}}}, "qqq"},
      {"TorchAo", method("torchao"), torchao, "torchao"},
      {"TorchAoWithoutConfiguration", R"("bits":8)", torchao, "torchao"},
      {"Quanto", method("quanto"), quanto, "quanto"},
      {"QuantoWithoutConfiguration", R"("bits":8)", quanto, "quanto"},
      {"Aqlm", method("aqlm"), aqlm, "aqlm"},
      {"AqlmWithoutConfiguration", R"("bits":2)", aqlm, "aqlm"},
      {"Exl2",
       method("exl2"),
       {{".q_weight", "I32", {8, 64}}, {".q_scale", "I32", {2, 8}}, {".q_scale_max", "F16", {2}}},
       "exl2"},
      {"Exl3", method("exl3"), exl3, "exl3"},
      {"Exl3WithoutConfiguration", R"("bits":3)", exl3, "exl3"},
      {"Higgs",
       method("higgs"),
       {{".weight", "I16", {6, 64}}, {".scales", "F16", {1, 64}}, {".tables", "F32", {256, 2}}},
       "higgs"},
      {"Spqr",
       method("spqr"),
       {{".dense_weights", "I64", {96}}, {".row_offsets", "I32", {65}}, {".col_vals", "I32", {9}}},
       "spqr"},
      {"Vptq",
       method("vptq"),
       {{".indices", "I32", {1, 8, 24}},
        {".centroids.weight", "F16", {1, 2048}},
        {".perm", "I16", {64}}},
       "vptq"},
      {"Eetq",
       method("eetq"),
       {{".weight", "I8", {64, 64}}, {".weight_scales", "F16", {64}}},
       "eetq"},
      {"Sinq", method("sinq"), sinq, "sinq"},
      {"FpQuant",
       method("fp_quant"),
       {{".qweight", "U8", {64, 32}},
        {".scales", "U8", {64, 2}},
        {".forward_hadamard_matrix", "F16", {32, 32}}},
       "fp_quant"},
      {"FourOverSix",
       method("fouroversix"),
       {{".quantized_weight_values", "U8", {64, 32}}, {".quantized_weight_amax", "F32", {1}}},
       "fouroversix"},
      {"Nvfp4OfTheHub",
       method("nvfp4"),
       {{".weight", "U8", {64, 32}},
        {".weight_sf", "I32", {64, 2}},
        {".weight_global_scale", "F32", {1}}},
       "nvfp4"},
      {"SqueezeLlm",
       method("squeezellm"),
       {{".qweight", "I32", {8, 64}}, {".lookup_table", "F16", {64, 16}}},
       "squeezellm"},
      {"Quip", method("quip"), {{".Qidxs", "I16", {64, 8}}, {".SU", "F16", {64}}}, "quip"},
      {"GgufInSafetensors", method("gguf"), {{".qweight", "U8", {64, 36}}}, "gguf"},
      {"QuarkInt4",
       method("quark"),
       {{".weight", "I32", {64, 8}}, {".weight_scale", "F16", {2, 64}}},
       "quark"},
      {"MethodOfTomorrow",
       method("tomorrowquant"),
       {{".weight", "I8", {64, 64}}, {".rotations", "F16", {8, 8}}},
       "tomorrowquant"},
  };
}

class ForeignSchemes : public ::testing::TestWithParam<Foreign> {};

TEST_P(ForeignSchemes, AreRefusedByName) {
  const Foreign& foreign = GetParam();
  const std::string config =
      R"({"model_type":"llama","quantization_config":{)" + foreign.config + "}}";
  const ModelFolder folder(tensors_of(foreign.parts), config);
  const std::string refusal = folder.refusal(kWeight);
  EXPECT_NE(refusal.find("not supported: "), std::string::npos) << refusal;
  EXPECT_NE(refusal.find(foreign.scheme), std::string::npos) << refusal;

  const input::ModelFiles files = input::open_model(folder.path(), {});
  const model::ModelIndex index = model::index_model(files);
  ASSERT_FALSE(index.matrices.empty());
  for (const model::MatrixRecord& matrix : index.matrices) {
    EXPECT_FALSE(matrix.unsupported.empty()) << matrix.tensor << " passes for a weight";
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, ForeignSchemes, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.name; });

TEST(ForeignSchemes, PlainWeightsBesideThemAreRead) {
  std::vector<TestTensor> tensors =
      tensors_of({{"._weight_qdata", "I8", {8, 8}}, {"._weight_scale", "F16", {8, 1}}});
  tensors.push_back({"model.layers.0.mlp.gate.weight", "BF16", {8, 4}, Bytes(64, 0)});
  tensors.push_back({"model.embeddings.position_ids", "I64", {1, 8}, Bytes(64, 0)});
  const ModelFolder folder(tensors, R"({"quantization_config":{"quant_method":"torchao"}})");
  EXPECT_EQ(folder.decoded("model.layers.0.mlp.gate.weight").size(), 32U);
  EXPECT_EQ(folder.decoded("model.embeddings.position_ids").size(), 8U);
}

TEST(QuantisedTensors, CodesAloneAreNeverDecoded) {
  const std::vector<TestTensor> tensors =
      tensors_of({{".weight", "F8_E4M3", {2, 2, 4, 4}}, {".weight_scale", "F32", {1}}});
  const std::string refusal = ModelFolder(tensors, "{}").refusal(kWeight);
  EXPECT_NE(refusal.find("no weight matrix: 4-D"), std::string::npos) << refusal;
}

TEST(ForeignSchemes, FloatsOfEightBitsNeedNoKnownMethod) {
  const std::vector<TestTensor> tensors =
      tensors_of({{".weight", "F8_E4M3", {8, 8}}, {".weight_scale", "F32", {8, 1}}});
  const ModelFolder folder(tensors, R"({"quantization_config":{"quant_method":"tomorrow"}})");
  EXPECT_EQ(folder.decoded(kWeight).size(), 64U);
}

}  // namespace
}  // namespace vindex::commands::testing::quantised_foreign_test
