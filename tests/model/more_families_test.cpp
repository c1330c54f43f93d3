// What names mean, continued: the families that name or lay out experts in their own way.
#include "model_fixture.hpp"

namespace vindex::model::more_families_test {
namespace {

using decode::ElementType;

TEST(MixtralTest, W1IsGateW3IsUpW2IsDown) {
  ModelFixture fixture;
  fixture.config("model_type", "mixtral");
  const std::string moe = "model.layers.4.block_sparse_moe.";
  fixture.bf16(moe + "gate.weight", {8, 40});
  fixture.bf16(moe + "experts.5.w1.weight", {24, 40});
  fixture.bf16(moe + "experts.5.w2.weight", {40, 24});
  fixture.bf16(moe + "experts.5.w3.weight", {24, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, moe + "gate.weight"), "4/router/router/-1/-1 8x40");
  EXPECT_EQ(only(index, moe + "experts.5.w1.weight"), "4/routed_expert/gate_proj/5/-1 24x40");
  EXPECT_EQ(only(index, moe + "experts.5.w2.weight"), "4/routed_expert/down_proj/5/-1 40x24");
  EXPECT_EQ(only(index, moe + "experts.5.w3.weight"), "4/routed_expert/up_proj/5/-1 24x40");
}

TEST(QwenMoeTest, SharedExpertGateIsARouterOfOneRow) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen2_moe");
  const std::string mlp = "model.layers.0.mlp.";
  fixture.bf16(mlp + "shared_expert_gate.weight", {1, 40});
  fixture.bf16(mlp + "shared_expert.up_proj.weight", {96, 40});
  fixture.bf16(mlp + "experts.3.gate_proj.weight", {24, 40});
  fixture.bf16("model.layers.0.self_attn.q_proj.bias", {40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, mlp + "shared_expert_gate.weight"),
            "0/router/shared_expert_gate/-1/-1 1x40");
  EXPECT_EQ(only(index, mlp + "shared_expert.up_proj.weight"),
            "0/shared_expert/up_proj/-1/-1 96x40");
  EXPECT_EQ(only(index, mlp + "experts.3.gate_proj.weight"),
            "0/routed_expert/gate_proj/3/-1 24x40");
  const TensorRecord* bias = find_tensor(index, "model.layers.0.self_attn.q_proj.bias");
  EXPECT_EQ(bias->block, Block::kAttention);
  EXPECT_EQ(bias->role, "bias");
}

TEST(PhiTest, FusedProjectionsStayOneMatrix) {
  ModelFixture hf;
  hf.config("model_type", "phi3");
  hf.bf16("model.layers.0.self_attn.qkv_proj.weight", {120, 40});
  hf.bf16("model.layers.0.mlp.gate_up_proj.weight", {192, 40});
  const ModelIndex index = hf.index();
  EXPECT_EQ(only(index, "model.layers.0.self_attn.qkv_proj.weight"),
            "0/attention/qkv_proj/-1/-1 120x40");
  EXPECT_EQ(only(index, "model.layers.0.mlp.gate_up_proj.weight"),
            "0/dense_mlp/gate_up_proj/-1/-1 192x40");

  ModelFixture gguf = ModelFixture::gguf("phi3");
  gguf.bf16("blk.0.ffn_up.weight", {192, 40});
  EXPECT_EQ(only(gguf.index(), "blk.0.ffn_up.weight"), "0/dense_mlp/gate_up_proj/-1/-1 192x40");
}

TEST(GemmaTest, VisionTowerOfAWrapperIsOther) {
  ModelFixture fixture;
  fixture.config("model_type", "gemma3");
  fixture.config("text_config.model_type", "gemma3_text");
  fixture.bf16("language_model.model.layers.1.self_attn.q_proj.weight", {64, 40});
  fixture.bf16("model.language_model.layers.2.mlp.up_proj.weight", {96, 40});
  fixture.bf16("vision_tower.vision_model.encoder.layers.3.self_attn.q_proj.weight", {30, 20});
  fixture.bf16("language_model.model.layers.1.pre_feedforward_layernorm.weight", {40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "language_model.model.layers.1.self_attn.q_proj.weight"),
            "1/attention/q_proj/-1/-1 64x40");
  EXPECT_EQ(only(index, "model.language_model.layers.2.mlp.up_proj.weight"),
            "2/dense_mlp/up_proj/-1/-1 96x40");
  EXPECT_EQ(only(index, "vision_tower.vision_model.encoder.layers.3.self_attn.q_proj.weight"),
            "-1/other/q_proj/-1/-1 30x20");
  EXPECT_EQ(
      find_tensor(index, "language_model.model.layers.1.pre_feedforward_layernorm.weight")->block,
      Block::kNorm);
}

TEST(GptOssTest, FusedStacksAreTurnedToOutByIn) {
  ModelFixture fixture;
  fixture.config("model_type", "gpt_oss");
  const std::string mlp = "model.layers.2.mlp.";
  // Hidden 40, inner 24: gate_up [E, H, 2I], down [E, I, H].
  const std::int32_t gate_up = fixture.bf16(mlp + "experts.gate_up_proj", {3, 40, 48});
  fixture.bf16(mlp + "experts.down_proj", {3, 24, 40});
  fixture.bf16(mlp + "experts.gate_up_proj_bias", {3, 48});
  fixture.bf16(mlp + "router.weight", {3, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, mlp + "experts.gate_up_proj"),
            (std::vector<std::string>{"2/routed_expert/gate_up_proj/0/0 48x40 T",
                                      "2/routed_expert/gate_up_proj/1/1 48x40 T",
                                      "2/routed_expert/gate_up_proj/2/2 48x40 T"}));
  EXPECT_EQ(describe(index, mlp + "experts.down_proj")[1], "2/routed_expert/down_proj/1/1 40x24 T");
  EXPECT_EQ(only(index, mlp + "router.weight"), "2/router/router/-1/-1 3x40");
  EXPECT_EQ(find_tensor(index, mlp + "experts.gate_up_proj_bias")->reason, "bias");
  EXPECT_TRUE(index.warnings.empty());

  const MatrixRecord* slice = find_matrix(index, mlp + "experts.gate_up_proj", 1);
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

TEST(FusedResaveTest, StacksOutByInAreNotTurned) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen3_moe");
  const std::string mlp = "model.layers.2.mlp.experts.";
  fixture.bf16(mlp + "gate_up_proj", {3, 48, 40});
  fixture.bf16(mlp + "down_proj", {3, 40, 24});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, mlp + "gate_up_proj")[2], "2/routed_expert/gate_up_proj/2/2 48x40");
  EXPECT_EQ(describe(index, mlp + "down_proj")[0], "2/routed_expert/down_proj/0/0 40x24");
}

TEST(FusedResaveTest, ShapesOfThePairOutrankTheArchitecture) {
  ModelFixture fixture;
  fixture.config("model_type", "gpt_oss");
  const std::string mlp = "model.layers.2.mlp.experts.";
  fixture.bf16(mlp + "gate_up_proj", {3, 48, 40});
  fixture.bf16(mlp + "down_proj", {3, 40, 24});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, mlp + "gate_up_proj")[0], "2/routed_expert/gate_up_proj/0/0 48x40");
  EXPECT_EQ(describe(index, mlp + "down_proj")[0], "2/routed_expert/down_proj/0/0 40x24");
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LAYOUT"});
}

TEST(Llama4Test, ExpertsAreTransposedAndVisionIsOther) {
  ModelFixture fixture;
  fixture.config("model_type", "llama4");
  const std::string ffn = "language_model.model.layers.1.feed_forward.";
  fixture.bf16(ffn + "experts.gate_up_proj", {2, 40, 48});
  fixture.bf16(ffn + "experts.down_proj", {2, 24, 40});
  fixture.bf16(ffn + "router.weight", {2, 40});
  fixture.bf16(ffn + "shared_expert.gate_proj.weight", {24, 40});
  fixture.bf16("vision_model.model.layers.0.mlp.fc1.weight", {30, 20});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, ffn + "experts.gate_up_proj")[1],
            "1/routed_expert/gate_up_proj/1/1 48x40 T");
  EXPECT_EQ(describe(index, ffn + "experts.down_proj")[1], "1/routed_expert/down_proj/1/1 40x24 T");
  EXPECT_EQ(only(index, ffn + "router.weight"), "1/router/router/-1/-1 2x40");
  EXPECT_EQ(only(index, ffn + "shared_expert.gate_proj.weight"),
            "1/shared_expert/gate_proj/-1/-1 24x40");
  EXPECT_EQ(only(index, "vision_model.model.layers.0.mlp.fc1.weight"), "-1/other/fc1/-1/-1 30x20");
}

TEST(GraniteTest, LinearsAreFusedStacks) {
  ModelFixture fixture;
  fixture.config("model_type", "granitemoeshared");
  const std::string layer = "model.layers.0.";
  fixture.bf16(layer + "block_sparse_moe.input_linear.weight", {3, 48, 40});
  fixture.bf16(layer + "block_sparse_moe.output_linear.weight", {3, 40, 24});
  fixture.bf16(layer + "block_sparse_moe.router.layer.weight", {3, 40});
  fixture.bf16(layer + "shared_mlp.input_linear.weight", {96, 40});
  fixture.bf16(layer + "shared_mlp.output_linear.weight", {40, 48});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(describe(index, layer + "block_sparse_moe.input_linear.weight")[2],
            "0/routed_expert/gate_up_proj/2/2 48x40");
  EXPECT_EQ(describe(index, layer + "block_sparse_moe.output_linear.weight")[2],
            "0/routed_expert/down_proj/2/2 40x24");
  EXPECT_EQ(only(index, layer + "block_sparse_moe.router.layer.weight"),
            "0/router/router/-1/-1 3x40");
  EXPECT_EQ(only(index, layer + "shared_mlp.input_linear.weight"),
            "0/shared_expert/gate_up_proj/-1/-1 96x40");
  EXPECT_EQ(only(index, layer + "shared_mlp.output_linear.weight"),
            "0/shared_expert/down_proj/-1/-1 40x48");
}

TEST(DbrxTest, DownIsTurned) {
  ModelFixture fixture;
  fixture.config("model_type", "dbrx");
  const std::string block = "transformer.blocks.3.";
  fixture.bf16(block + "ffn.experts.mlp.w1", {72, 40});
  fixture.bf16(block + "ffn.experts.mlp.v1", {72, 40});
  fixture.bf16(block + "ffn.experts.mlp.w2", {72, 40});
  fixture.bf16(block + "ffn.router.layer.weight", {3, 40});
  fixture.bf16(block + "norm_attn_norm.attn.Wqkv.weight", {60, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, block + "ffn.experts.mlp.w1"), "3/routed_expert/gate_proj/-1/-1 72x40");
  EXPECT_EQ(only(index, block + "ffn.experts.mlp.v1"), "3/routed_expert/up_proj/-1/-1 72x40");
  EXPECT_EQ(only(index, block + "ffn.experts.mlp.w2"), "3/routed_expert/down_proj/-1/-1 40x72 T");
  EXPECT_EQ(only(index, block + "norm_attn_norm.attn.Wqkv.weight"),
            "3/attention/qkv_proj/-1/-1 60x40");
}

TEST(OldGgufTest, ExpertsWereSeparateTensors) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  fixture.bf16("blk.1.ffn_gate.6.weight", {24, 40});
  fixture.bf16("blk.1.ffn_down.6.weight", {40, 24});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "blk.1.ffn_gate.6.weight"), "1/routed_expert/gate_proj/6/-1 24x40");
  EXPECT_EQ(only(index, "blk.1.ffn_down.6.weight"), "1/routed_expert/down_proj/6/-1 40x24");
}

TEST(GgufTest, PredictionStateSpaceAndOldMlaNames) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  fixture.bf16("blk.9.nextn.eh_proj.weight", {40, 80});
  fixture.bf16("blk.9.nextn.shared_head_head.weight", {90, 40});
  fixture.bf16("blk.9.attn_kv_b.weight", {64, 16});
  fixture.bf16("blk.9.ssm_in.weight", {64, 40});
  fixture.bf16("blk.9.ssm_conv1d.weight", {64, 4});
  fixture.bf16("blk.9.ffn_gate_inp_shexp.weight", {1, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "blk.9.nextn.eh_proj.weight"), "9/other/eh_proj/-1/-1 40x80");
  EXPECT_EQ(only(index, "blk.9.nextn.shared_head_head.weight"), "9/output/lm_head/-1/-1 90x40");
  EXPECT_EQ(only(index, "blk.9.attn_kv_b.weight"), "9/attention/kv_b_proj/-1/-1 64x16");
  EXPECT_EQ(only(index, "blk.9.ssm_in.weight"), "9/ssm/in_proj/-1/-1 64x40");
  EXPECT_EQ(only(index, "blk.9.ssm_conv1d.weight"), "9/ssm/ssm_conv1d/-1/-1 64x4");
  EXPECT_EQ(only(index, "blk.9.ffn_gate_inp_shexp.weight"),
            "9/router/shared_expert_gate/-1/-1 1x40");
}

TEST(Deepseek4Test, TokenTableIsNoWeight) {
  ModelFixture fixture = ModelFixture::gguf("deepseek4");
  fixture.add("blk.0.ffn_gate_tid2eid.weight", ElementType::kI32, {90, 6});
  const ModelIndex index = fixture.index();
  EXPECT_TRUE(index.matrices.empty());
  EXPECT_EQ(index.tensors[0].reason, "lookup table");
}

TEST(UnknownArchitectureTest, EveryMatrixIsOtherUnderItsOwnName) {
  for (const bool gguf : {false, true}) {
    ModelFixture fixture = gguf ? ModelFixture::gguf("mystery") : ModelFixture();
    if (!gguf) {
      fixture.config("model_type", "mystery");
    }
    fixture.bf16("blk.3.attn_q.weight", {64, 40});
    fixture.bf16("layers.4.experts.9.w1.weight", {24, 40});
    fixture.bf16("blk.3.ffn_up_exps.weight", {3, 24, 40});
    fixture.bf16("stem.conv1.weight", {24, 4, 3});
    fixture.bf16("blk.3.attn_norm.weight", {40});
    const ModelIndex index = fixture.index();
    ASSERT_EQ(index.matrices.size(), 2U);
    EXPECT_EQ(only(index, "blk.3.attn_q.weight"), "3/other/attn_q/-1/-1 64x40");
    EXPECT_EQ(only(index, "layers.4.experts.9.w1.weight"), "4/other/w1/9/-1 24x40");
    EXPECT_EQ(find_tensor(index, "blk.3.ffn_up_exps.weight")->reason, "3-D, no known stack");
    EXPECT_EQ(find_tensor(index, "stem.conv1.weight")->reason, "convolution");
    EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-ARCHITECTURE-UNKNOWN"});
    EXPECT_EQ(index.shape.architecture, "mystery");
  }
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

TEST(NoConfigurationTest, HuggingFaceNamesSpeakForThemselves) {
  ModelFixture fixture;
  fixture.bf16("model.layers.1.mlp.experts.0.down_proj.weight", {40, 24});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "model.layers.1.mlp.experts.0.down_proj.weight"),
            "1/routed_expert/down_proj/0/-1 40x24");
  EXPECT_EQ(index.shape.architecture, "unknown");
  EXPECT_TRUE(index.warnings.empty());
}

}  // namespace
}  // namespace vindex::model::more_families_test
