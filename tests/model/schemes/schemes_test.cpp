// Codes and companions: what they make together, and how a broken set reads.
#include "schemes_fixture.hpp"

#include "decode/encoding_table.hpp"

namespace vindex::model::schemes_test {
namespace {

using decode::CompanionRole;
using decode::ElementType;

TEST(Float8BlockTest, ScaleFromAnotherShardIsBoundWithPartialEdgeBlocks) {
  ModelFixture fixture = deepseek();
  fixture.block_size(128, 128);
  const std::int32_t scale = fixture.add(kBase + "_scale_inv", ElementType::kF32, {2, 3});
  fixture.add_shard("model-00002-of-00002.safetensors");
  const std::int32_t codes = fixture.add(kBase, ElementType::kF8E4M3, {200, 300});
  const ModelIndex index = fixture.index();
  const MatrixRecord& matrix = only_matrix(index);
  EXPECT_EQ(matrix.unsupported, "");
  EXPECT_EQ(matrix.encoding.label, "F8_E4M3/128x128");
  EXPECT_EQ(matrix.shard, "model-00002-of-00002.safetensors");
  EXPECT_EQ(matrix.codes.tensor, codes);
  ASSERT_EQ(matrix.companions.size(), 1U);
  EXPECT_EQ(matrix.companions[0].role, CompanionRole::kScale);
  EXPECT_EQ(matrix.companions[0].type, ElementType::kF32);
  EXPECT_EQ(matrix.companions[0].part.tensor, scale);
  EXPECT_EQ(matrix.companions[0].part.rows, 2);
  EXPECT_EQ(matrix.companions[0].part.cols, 3);
  ASSERT_EQ(index.tensors.size(), 1U);
  EXPECT_EQ(index.tensors[0].stored, (std::vector<std::int32_t>{codes, scale}));
  EXPECT_EQ(index.shape.quantisation, "fp8 128x128");
}

TEST(Float8BlockTest, MissingMisshapenAndMistypedScalesFailClosed) {
  ModelFixture missing = deepseek();
  missing.block_size(128, 128);
  missing.add(kBase, ElementType::kF8E4M3, {200, 300});
  EXPECT_EQ(only_matrix(missing.index()).unsupported, "scale missing: " + kBase + "_scale_inv");

  ModelFixture misshapen = deepseek();
  misshapen.block_size(128, 128);
  misshapen.add(kBase, ElementType::kF8E4M3, {200, 300});
  misshapen.add(kBase + "_scale_inv", ElementType::kF32, {3, 2});
  EXPECT_EQ(
      only_matrix(misshapen.index()).unsupported,
      "scale misshapen: " + kBase + "_scale_inv is [3, 2], one, 200 or 2x3 scales are needed");

  ModelFixture mistyped = deepseek();
  mistyped.block_size(128, 128);
  mistyped.add(kBase, ElementType::kF8E4M3, {200, 300});
  mistyped.add(kBase + "_scale_inv", ElementType::kI32, {2, 3});
  EXPECT_EQ(only_matrix(mistyped.index()).unsupported,
            "scale of wrong type: " + kBase + "_scale_inv is I32");
}

TEST(Float8BlockTest, BlockSizeOfTheConfigurationCounts) {
  ModelFixture fixture = deepseek();
  fixture.block_size(64, 100);
  fixture.add(kBase, ElementType::kF8E4M3, {200, 300});
  fixture.add(kBase + "_scale_inv", ElementType::kF32, {4, 3});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only_matrix(index).unsupported, "");
  EXPECT_EQ(only_matrix(index).encoding.block_rows, 64);
  EXPECT_EQ(only_matrix(index).encoding.block_cols, 100);
}

TEST(Float8BlockTest, ConfigurationMayBeNestedOrBroken) {
  ModelFixture nested;
  nested.config("model_type", "kimi_k25");
  JsonValue::Array sides;
  sides.emplace_back(JsonValue::Storage(std::uint64_t{64}));
  sides.emplace_back(JsonValue::Storage(std::uint64_t{64}));
  nested.config("text_config.quantization_config.weight_block_size",
                JsonValue::Storage(std::move(sides)));
  nested.add(kBase, ElementType::kF8E4M3, {200, 300});
  nested.add(kBase + "_scale_inv", ElementType::kF32, {4, 5});
  EXPECT_EQ(only_matrix(nested.index()).unsupported, "");

  ModelFixture broken = deepseek();
  broken.config("quantization_config.weight_block_size", "128");
  broken.add(kBase, ElementType::kF8E4M3, {200, 300});
  broken.add(kBase + "_scale_inv", ElementType::kF32, {2, 3});
  const ModelIndex index = broken.index();
  EXPECT_EQ(only_matrix(index).encoding.label, "F8_E4M3/128x128");
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-CONFIG-TYPE"});
}

TEST(Float8BlockTest, AStackIsSlicedWithItsScales) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen3_moe");
  const std::string name = "model.layers.0.mlp.experts.gate_up_proj";
  const std::int32_t codes = fixture.add(name, ElementType::kF8E4M3, {3, 200, 300});
  const std::int32_t scale = fixture.add(name + "_scale_inv", ElementType::kF32, {3, 2, 3});
  const ModelIndex index = fixture.index();
  ASSERT_EQ(index.matrices.size(), 3U);
  const auto& tensors = fixture.files().tensors;
  const MatrixRecord& last = index.matrices[2];
  EXPECT_EQ(last.unsupported, "");
  EXPECT_EQ(last.codes.offset, tensors[static_cast<std::size_t>(codes)].offset + 2 * 200 * 300);
  EXPECT_EQ(last.companions.at(0).part.offset,
            tensors[static_cast<std::size_t>(scale)].offset + 2 * 6 * 4);
  EXPECT_EQ(last.companions[0].part.bytes, 24U);
  EXPECT_EQ(last.companions[0].part.rows, 2);
  EXPECT_EQ(last.companions[0].part.cols, 3);
}

TEST(Float8ScaleTest, ScalePerTensorRowAndGroupAreBlocks) {
  struct Case {
    ElementType type;
    std::vector<std::int64_t> shape;
    std::string label;
    std::int32_t block_rows, block_cols;
    std::int64_t rows, cols;  // of the companion
  };
  for (const Case& c : {Case{ElementType::kF32, {}, "F8_E4M3/tensor", 200, 96, 1, 1},
                        Case{ElementType::kBF16, {1}, "F8_E4M3/tensor", 200, 96, 1, 1},
                        Case{ElementType::kBF16, {200, 1}, "F8_E4M3/channel", 1, 96, 200, 1},
                        Case{ElementType::kF32, {200}, "F8_E4M3/channel", 1, 96, 200, 1},
                        Case{ElementType::kU8, {200, 3}, "F8_E4M3/mx32", 1, 32, 200, 3}}) {
    SCOPED_TRACE(c.label);
    ModelFixture fixture = deepseek();
    fixture.add(kBase, ElementType::kF8E4M3, {200, 96});
    fixture.add(kBase + "_scale", c.type, c.shape);
    const ModelIndex index = fixture.index();
    const MatrixRecord& matrix = only_matrix(index);
    EXPECT_EQ(matrix.unsupported, "");
    EXPECT_EQ(matrix.encoding.label, c.label);
    EXPECT_EQ(matrix.encoding.block_rows, c.block_rows);
    EXPECT_EQ(matrix.encoding.block_cols, c.block_cols);
    ASSERT_EQ(matrix.companions.size(), 1U);
    EXPECT_EQ(matrix.companions[0].part.rows, c.rows);
    EXPECT_EQ(matrix.companions[0].part.cols, c.cols);
  }
}

TEST(Float8ScaleTest, ScalesOfAnotherShapeAreRefused) {
  ModelFixture fixture = deepseek();
  fixture.add(kBase, ElementType::kF8E4M3, {200, 96});
  fixture.add(kBase + "_scale", ElementType::kF32, {96, 1});
  EXPECT_EQ(only_matrix(fixture.index()).unsupported,
            "scale misshapen: " + kBase + "_scale is [96, 1], one, 200 or 2x1 scales are needed");
}

TEST(Float8PlainTest, WithoutAnySignOfScalesTheCodesAreTheWeights) {
  ModelFixture fixture = deepseek();
  fixture.add(kBase, ElementType::kF8E4M3, {200, 96});
  EXPECT_EQ(only_matrix(fixture.index()).encoding.label, "F8_E4M3");
  EXPECT_EQ(only_matrix(fixture.index()).unsupported, "");
}

TEST(NamedSchemesTest, CompanionsOfEverySchemeMakeNoMatrixOfTheirOwn) {
  const std::string base = "model.layers.1.mlp.experts.0.up_proj";
  struct Part {
    std::string suffix;
    ElementType type;
    std::vector<std::int64_t> shape;
  };
  struct Case {
    std::string label;
    std::int64_t rows, cols;
    std::vector<Part> parts;
    std::string unsupported = {};
  };
  const std::vector<Case> cases = {
      {"INT4/g32/gptq",
       48,
       64,
       {{".qweight", ElementType::kI32, {8, 48}},
        {".qzeros", ElementType::kI32, {2, 6}},
        {".scales", ElementType::kF16, {2, 48}},
        {".g_idx", ElementType::kI32, {64}}}},
      {"INT4/g32/awq",
       48,
       64,
       {{".qweight", ElementType::kI32, {64, 6}},
        {".qzeros", ElementType::kI32, {2, 6}},
        {".scales", ElementType::kF16, {2, 48}}}},
      {"NF4",
       0,
       0,
       {{".weight", ElementType::kU8, {1536, 1}},
        {".weight.absmax", ElementType::kU8, {48}},
        {".weight.quant_map", ElementType::kF32, {16}},
        {".weight.nested_absmax", ElementType::kF32, {1}},
        {".weight.nested_quant_map", ElementType::kF32, {256}},
        {".weight.quant_state.bitsandbytes__nf4", ElementType::kU8, {80}}},
       "quant_state unreadable: no bytes"},
      {"INT8/row",
       48,
       64,
       {{".weight", ElementType::kI8, {48, 64}},
        {".SCB", ElementType::kF32, {48}},
        {".weight_format", ElementType::kU8, {}}}},
      {"INT/hqq",
       0,
       0,
       {{".W_q", ElementType::kU8, {24, 64}},
        {".scale", ElementType::kF16, {48, 1}},
        {".zero", ElementType::kF16, {48, 1}},
        {".nbits", ElementType::kI32, {}}},
       "shape, nbits or axis missing"},
      {"NVFP4",
       48,
       64,
       {{".weight", ElementType::kU8, {48, 32}},
        {".weight_scale", ElementType::kF8E4M3, {48, 4}},
        {".weight_scale_2", ElementType::kF32, {}},
        {".input_scale", ElementType::kF32, {}}}},
      {"NVFP4",
       48,
       64,
       {{".weight_packed", ElementType::kU8, {48, 32}},
        {".weight_scale", ElementType::kF8E4M3, {48, 4}},
        {".weight_global_scale", ElementType::kF32, {1}},
        {".input_global_scale", ElementType::kF32, {1}}}},
      {"MXFP4",
       48,
       64,
       {{".weight_packed", ElementType::kU8, {48, 32}},
        {".weight_scale", ElementType::kU8, {48, 2}}}},
      {"TERNARY",
       48,
       64,
       {{".weight", ElementType::kU8, {12, 64}}, {".weight_scale", ElementType::kBF16, {1}}}},
      {"INT/mlx",
       0,
       0,
       {{".weight", ElementType::kU32, {48, 8}},
        {".scales", ElementType::kBF16, {48, 2}},
        {".biases", ElementType::kBF16, {48, 2}}},
       "scheme not supported: INT/mlx"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.label + c.parts[0].suffix);
    ModelFixture fixture = deepseek();
    for (const Part& part : c.parts) {
      fixture.add(base + part.suffix, part.type, part.shape);
    }
    const ModelIndex index = fixture.index();
    const MatrixRecord& matrix = only_matrix(index);
    EXPECT_EQ(matrix.tensor, base + ".weight");
    EXPECT_EQ(matrix.encoding.label, c.label);
    EXPECT_EQ(matrix.rows, c.rows);
    EXPECT_EQ(matrix.cols, c.cols);
    EXPECT_EQ(matrix.unsupported, c.unsupported);
    EXPECT_EQ(decode::is_decodable(matrix.encoding), c.unsupported.empty());
    ASSERT_EQ(index.tensors.size(), 1U);
    EXPECT_EQ(index.tensors[0].stored.size(), c.parts.size());
    EXPECT_TRUE(index.warnings.empty());
  }
}

TEST(OrphanTest, ScaleWithoutWeightIsListedWithOneWarning) {
  ModelFixture fixture = deepseek();
  fixture.add(kBase + "_scale_inv", ElementType::kF32, {2, 3});
  fixture.add("model.layers.1.mlp.experts.1.up_proj.weight_scale_inv", ElementType::kF32, {2, 3});
  const ModelIndex index = fixture.index();
  EXPECT_TRUE(index.matrices.empty());
  ASSERT_EQ(index.tensors.size(), 2U);
  EXPECT_EQ(index.tensors[0].reason, "companion without its weight");
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-COMPANION-ORPHAN"});
}

TEST(WeakSuffixTest, PlainWeightsNamedLikeCompanionsAreMeasured) {
  ModelFixture fixture = deepseek();
  fixture.bf16("model.thing.weight", {6, 8});
  fixture.bf16("model.thing.scale", {6, 8});
  fixture.bf16("model.other.shape", {6, 8});
  fixture.bf16("model.logit_scale", {6, 8});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(index.matrices.size(), 4U);
}

TEST(GgufSchemesTest, FactorBesideNvfp4IsNotLost) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  fixture.add("blk.0.ffn_up_exps.weight", ElementType::kNVFP4, {2, 4, 64});
  const std::int32_t factor = fixture.add("blk.0.ffn_up_exps.scale", ElementType::kF32, {2});
  fixture.add("blk.0.attn_q.weight", ElementType::kBF16, {4, 64});
  fixture.add("blk.0.attn_q.scale", ElementType::kF32, {1});
  const ModelIndex index = fixture.index();
  const MatrixRecord* slice = find_matrix(index, "blk.0.ffn_up_exps.weight", 1);
  ASSERT_NE(slice, nullptr);
  ASSERT_EQ(slice->companions.size(), 1U);
  EXPECT_EQ(slice->unsupported, "");
  EXPECT_EQ(slice->encoding.label, "NVFP4");
  EXPECT_EQ(slice->companions[0].role, CompanionRole::kScale);
  EXPECT_EQ(slice->companions[0].part.bytes, 4U);
  EXPECT_EQ(slice->companions[0].part.offset,
            fixture.files().tensors[static_cast<std::size_t>(factor)].offset + 4);
  EXPECT_NE(find_tensor(index, "blk.0.attn_q.scale"), nullptr);
}

TEST(PlainIntegerTest, IntegersAreMeasuredAndBoolsAreNot) {
  ModelFixture fixture = deepseek();
  fixture.add("a.weight", ElementType::kI8, {6, 8});
  fixture.add("b.weight", ElementType::kBool, {6, 8});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "a.weight"), "-1/other/a/-1/-1 6x8");
  EXPECT_EQ(find_matrix(index, "a.weight")->encoding.label, "I8");
  EXPECT_EQ(find_tensor(index, "b.weight")->reason, "BOOL");
}

}  // namespace
}  // namespace vindex::model::schemes_test
