// What names mean, continued: what the table of families has no place for.
#include "tests/model/model_fixture.hpp"

namespace vindex::model::more_families_test {
namespace {

using decode::ElementType;

TEST(DeepseekTest, PredictionLayersKeepTheirNumber) {
  ModelFixture fixture;
  fixture.config("model_type", "deepseek_v3");
  fixture.config("num_hidden_layers", 1);
  fixture.bf16("model.layers.0.mlp.gate_proj.weight", {48, 40});
  fixture.bf16("model.layers.1.eh_proj.weight", {40, 80});
  fixture.bf16("model.layers.1.embed_tokens.weight", {90, 40});
  fixture.bf16("model.layers.1.shared_head.head.weight", {90, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "model.layers.1.eh_proj.weight"), "1/other/eh_proj/-1/-1 40x80");
  EXPECT_EQ(only(index, "model.layers.1.embed_tokens.weight"),
            "1/embedding/embed_tokens/-1/-1 90x40");
  EXPECT_EQ(only(index, "model.layers.1.shared_head.head.weight"), "1/output/lm_head/-1/-1 90x40");
  EXPECT_EQ(index.shape.layers, 1);
  EXPECT_TRUE(index.warnings.empty());
}

TEST(Deepseek2GgufTest, ASliceOfAStackHasItsBytes) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  const std::int32_t down =
      fixture.add("blk.2.ffn_down_exps.weight", ElementType::kQ8_0, {4, 256, 32});
  const ModelIndex index = fixture.index();
  const input::StoredTensor& stored = fixture.files().tensors[static_cast<std::size_t>(down)];
  const MatrixRecord* slice = find_matrix(index, "blk.2.ffn_down_exps.weight", 2);
  ASSERT_NE(slice, nullptr);
  EXPECT_EQ(slice->codes.bytes, 256U * 34U);
  EXPECT_EQ(slice->codes.offset, stored.offset + 2 * 256U * 34U);
  EXPECT_EQ(slice->codes.rows, 256);
  EXPECT_EQ(slice->codes.cols, 32);
  EXPECT_EQ(slice->encoding.label, "Q8_0");
  EXPECT_EQ(slice->shard, "model.gguf");
  EXPECT_EQ(slice->unsupported, "");
}

TEST(GptOssTest, ASliceOfATurnedStackHasItsBytes) {
  ModelFixture fixture;
  fixture.config("model_type", "gpt_oss");
  const std::string name = "model.layers.2.mlp.experts.gate_up_proj";
  const std::int32_t gate_up = fixture.bf16(name, {3, 40, 48});
  const ModelIndex index = fixture.index();
  const MatrixRecord* slice = find_matrix(index, name, 1);
  ASSERT_NE(slice, nullptr);
  const std::uint64_t base = fixture.files().tensors[static_cast<std::size_t>(gate_up)].offset;
  EXPECT_EQ(slice->codes.offset, base + 40 * 48 * 2);
  EXPECT_EQ(slice->codes.bytes, 40U * 48U * 2U);
  EXPECT_EQ(slice->stored_rows(), 40);
  EXPECT_EQ(slice->stored_cols(), 48);
  EXPECT_EQ(slice->codes.rows, 40);
  EXPECT_EQ(slice->codes.cols, 48);
}

TEST(GptOssTest, PackedFormIsOneRowPerExpert) {
  ModelFixture fixture;
  fixture.config("model_type", "gpt_oss");
  const std::string name = "model.layers.2.mlp.experts.gate_up_proj";
  fixture.add(name + "_blocks", ElementType::kU8, {2, 48, 3, 16});
  fixture.add(name + "_scales", ElementType::kU8, {2, 48, 3});
  fixture.bf16(name + "_bias", {2, 48});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, name),
            (std::vector<std::string>{"2/routed_expert/gate_up_proj/0/0 48x96",
                                      "2/routed_expert/gate_up_proj/1/1 48x96"}));
  EXPECT_EQ(index.matrices[0].encoding.label, "MXFP4");
  EXPECT_EQ(index.matrices[0].unsupported, "");
  EXPECT_EQ(index.matrices.size(), 2U);
  EXPECT_EQ(index.tensors.size(), 2U);
  EXPECT_EQ(find_tensor(index, name)->stored, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(find_tensor(index, name)->shape, (std::vector<std::int64_t>{2, 48, 96}));
}

TEST(QwenMoeTest, ABiasHasItsRole) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen2_moe");
  fixture.bf16("model.layers.0.self_attn.q_proj.bias", {40});
  EXPECT_EQ(find_tensor(fixture.index(), "model.layers.0.self_attn.q_proj.bias")->role, "bias");
}

TEST(ReshapeOutTest, RanksBeyondMatricesBecomeOutTimesRest) {
  for (const bool gguf : {false, true}) {
    ModelFixture fixture = gguf ? ModelFixture::gguf("qwen3moe") : ModelFixture();
    if (!gguf) {
      fixture.config("model_type", "qwen3_moe");
    }
    const std::string stack =
        gguf ? "blk.3.ffn_up_exps.weight" : "model.layers.3.mlp.experts.up_proj.weight";
    fixture.bf16(stack, {3, 24, 40});
    fixture.bf16("visual.patch_embed.proj.weight", {24, 3, 2, 14});
    fixture.bf16("blk.3.ssm_conv1d.weight", {96, 1, 4});
    fixture.bf16("stem.empty.weight", {96, 0, 4});
    fixture.bf16("stem.flat.weight", {1, 7, 1});
    fixture.bf16("stem.bias", {4, 7, 2});
    fixture.add("stem.flags.weight", ElementType::kBool, {4, 7, 2});
    if (gguf) {
      fixture.add("stem.conv.weight", ElementType::kQ8_0, {5, 3, 64});
    }
    EXPECT_EQ(fixture.index().matrices.size(), 3U) << gguf;
    const ModelIndex index = fixture.index({.reshape_out = true});
    EXPECT_EQ(index.matrices.size(), gguf ? 7U : 6U);
    EXPECT_EQ(describe(index, stack).size(), 3U);
    EXPECT_EQ(only(index, "visual.patch_embed.proj.weight"), "-1/other/proj/-1/-1 24x84");
    EXPECT_NE(only(index, "blk.3.ssm_conv1d.weight").find("96x4"), std::string::npos);
    EXPECT_NE(only(index, "stem.flat.weight").find(" 1x7"), std::string::npos);
    if (gguf) {
      const MatrixRecord* packed = find_matrix(index, "stem.conv.weight");
      ASSERT_NE(packed, nullptr);
      EXPECT_EQ(packed->unsupported, "");
      EXPECT_EQ(packed->cols, 192);
    }
    EXPECT_EQ(find_tensor(index, "stem.empty.weight")->reason, "zero size");
    EXPECT_EQ(find_tensor(index, "stem.bias")->reason, "bias");
    EXPECT_EQ(find_tensor(index, "stem.flags.weight")->reason, "BOOL");
    EXPECT_TRUE(find_tensor(index, "visual.patch_embed.proj.weight")->in_matrix);
  }
}

TEST(NoModelTest, FilesOfOtherKindsAreRefusedByName) {
  for (const char* type : {"imatrix", "adapter", "mmproj"}) {
    ModelFixture fixture = ModelFixture::gguf("llama");
    fixture.text_key("general.type", type);
    try {
      fixture.index();
      FAIL() << type;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.id(), "E-MODEL-TYPE");
      EXPECT_NE(std::string(error.what()).find(type), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace vindex::model::more_families_test
