// What names mean, family by family. Fixtures are never square, so that a swapped side shows.
#include "model_fixture.hpp"

namespace vindex::model::families_test {
namespace {

using decode::ElementType;

TEST(DeepseekTest, EveryNameOfAMixtureLayerHasItsPlace) {
  ModelFixture fixture;
  fixture.config("model_type", "deepseek_v3");
  const std::string layer = "model.layers.3.";
  fixture.bf16("model.embed_tokens.weight", {90, 40});
  fixture.bf16("lm_head.weight", {90, 40});
  fixture.bf16("model.norm.weight", {40});
  fixture.bf16(layer + "self_attn.q_a_proj.weight", {24, 40});
  fixture.bf16(layer + "self_attn.q_a_layernorm.weight", {24});
  fixture.bf16(layer + "self_attn.q_b_proj.weight", {60, 24});
  fixture.bf16(layer + "self_attn.kv_a_proj_with_mqa.weight", {20, 40});
  fixture.bf16(layer + "self_attn.kv_b_proj.weight", {64, 16});
  fixture.bf16(layer + "self_attn.o_proj.weight", {40, 32});
  fixture.bf16(layer + "mlp.gate.weight", {8, 40});
  fixture.add(layer + "mlp.gate.e_score_correction_bias", ElementType::kF32, {8});
  fixture.bf16(layer + "mlp.experts.7.gate_proj.weight", {12, 40});
  fixture.bf16(layer + "mlp.experts.7.up_proj.weight", {12, 40});
  fixture.bf16(layer + "mlp.experts.7.down_proj.weight", {40, 12});
  fixture.bf16(layer + "mlp.shared_experts.gate_proj.weight", {12, 40});
  fixture.bf16(layer + "mlp.shared_experts.down_proj.weight", {40, 12});
  fixture.bf16("model.layers.0.mlp.gate_proj.weight", {48, 40});
  const ModelIndex index = fixture.index();

  EXPECT_EQ(only(index, "model.embed_tokens.weight"), "-1/embedding/embed_tokens/-1/-1 90x40");
  EXPECT_EQ(only(index, "lm_head.weight"), "-1/output/lm_head/-1/-1 90x40");
  EXPECT_EQ(only(index, layer + "self_attn.q_a_proj.weight"), "3/attention/q_a_proj/-1/-1 24x40");
  EXPECT_EQ(only(index, layer + "self_attn.q_b_proj.weight"), "3/attention/q_b_proj/-1/-1 60x24");
  EXPECT_EQ(only(index, layer + "self_attn.kv_a_proj_with_mqa.weight"),
            "3/attention/kv_a_proj/-1/-1 20x40");
  EXPECT_EQ(only(index, layer + "self_attn.kv_b_proj.weight"), "3/attention/kv_b_proj/-1/-1 64x16");
  EXPECT_EQ(only(index, layer + "self_attn.o_proj.weight"), "3/attention/o_proj/-1/-1 40x32");
  EXPECT_EQ(only(index, layer + "mlp.gate.weight"), "3/router/router/-1/-1 8x40");
  EXPECT_EQ(only(index, layer + "mlp.experts.7.gate_proj.weight"),
            "3/routed_expert/gate_proj/7/-1 12x40");
  EXPECT_EQ(only(index, layer + "mlp.experts.7.up_proj.weight"),
            "3/routed_expert/up_proj/7/-1 12x40");
  EXPECT_EQ(only(index, layer + "mlp.experts.7.down_proj.weight"),
            "3/routed_expert/down_proj/7/-1 40x12");
  EXPECT_EQ(only(index, layer + "mlp.shared_experts.gate_proj.weight"),
            "3/shared_expert/gate_proj/-1/-1 12x40");
  EXPECT_EQ(only(index, "model.layers.0.mlp.gate_proj.weight"),
            "0/dense_mlp/gate_proj/-1/-1 48x40");

  const TensorRecord* bias = find_tensor(index, layer + "mlp.gate.e_score_correction_bias");
  ASSERT_NE(bias, nullptr);
  EXPECT_FALSE(bias->in_matrix);
  EXPECT_EQ(bias->reason, "1-D");
  EXPECT_EQ(bias->block, Block::kRouter);
  EXPECT_EQ(find_tensor(index, "model.norm.weight")->block, Block::kNorm);
  EXPECT_EQ(find_tensor(index, layer + "self_attn.q_a_layernorm.weight")->block, Block::kNorm);
}

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

TEST(KimiTest, WrapperPrefixIsNoTowerAndTowersAreOther) {
  ModelFixture fixture;
  fixture.config("model_type", "kimi_k25");
  fixture.config("text_config.model_type", "kimi_k2");
  fixture.bf16("language_model.model.layers.2.mlp.experts.11.up_proj.weight", {12, 40});
  fixture.bf16("vision_tower.encoder.blocks.5.mlp.fc0.weight", {30, 20});
  fixture.bf16("mm_projector.proj.0.weight", {30, 20});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "language_model.model.layers.2.mlp.experts.11.up_proj.weight"),
            "2/routed_expert/up_proj/11/-1 12x40");
  EXPECT_EQ(only(index, "vision_tower.encoder.blocks.5.mlp.fc0.weight"),
            "-1/other/fc0/-1/-1 30x20");
  EXPECT_EQ(only(index, "mm_projector.proj.0.weight"), "-1/other/0/-1/-1 30x20");
  EXPECT_EQ(index.shape.architecture, "kimi_k25");
}

TEST(Deepseek2GgufTest, StacksBecomeOneMatrixPerSlice) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  fixture.add("token_embd.weight", ElementType::kQ4_K, {90, 256});
  fixture.add("output.weight", ElementType::kQ6_K, {90, 256});
  fixture.bf16("blk.2.attn_k_b.weight", {3, 16, 6});
  fixture.bf16("blk.2.attn_v_b.weight", {3, 8, 16});
  fixture.bf16("blk.2.attn_kv_a_mqa.weight", {20, 256});
  fixture.add("blk.2.ffn_gate_inp.weight", ElementType::kF32, {4, 256});
  fixture.add("blk.2.exp_probs_b.bias", ElementType::kF32, {4});
  const std::int32_t down =
      fixture.add("blk.2.ffn_down_exps.weight", ElementType::kQ8_0, {4, 256, 32});
  fixture.add("blk.2.ffn_up_shexp.weight", ElementType::kQ8_0, {32, 256});
  const ModelIndex index = fixture.index();

  EXPECT_EQ(only(index, "token_embd.weight"), "-1/embedding/embed_tokens/-1/-1 90x256");
  EXPECT_EQ(only(index, "output.weight"), "-1/output/lm_head/-1/-1 90x256");
  // As stored, one per head: k_b is kv_lora x nope, v_b is v_dim x kv_lora.
  EXPECT_EQ(
      describe(index, "blk.2.attn_k_b.weight"),
      (std::vector<std::string>{"2/attention/k_b_proj/-1/0 16x6", "2/attention/k_b_proj/-1/1 16x6",
                                "2/attention/k_b_proj/-1/2 16x6"}));
  EXPECT_EQ(describe(index, "blk.2.attn_v_b.weight")[2], "2/attention/v_b_proj/-1/2 8x16");
  EXPECT_EQ(only(index, "blk.2.attn_kv_a_mqa.weight"), "2/attention/kv_a_proj/-1/-1 20x256");
  EXPECT_EQ(only(index, "blk.2.ffn_gate_inp.weight"), "2/router/router/-1/-1 4x256");
  EXPECT_EQ(only(index, "blk.2.ffn_up_shexp.weight"), "2/shared_expert/up_proj/-1/-1 32x256");
  EXPECT_EQ(describe(index, "blk.2.ffn_down_exps.weight")[3],
            "2/routed_expert/down_proj/3/3 256x32");
  EXPECT_EQ(find_tensor(index, "blk.2.exp_probs_b.bias")->block, Block::kRouter);

  const shard::StoredTensor& stored = fixture.files().tensors[static_cast<std::size_t>(down)];
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

TEST(LlamaTest, BothContainersAgree) {
  ModelFixture hf;
  hf.config("model_type", "llama");
  hf.bf16("model.layers.1.self_attn.q_proj.weight", {64, 40});
  hf.bf16("model.layers.1.self_attn.k_proj.weight", {16, 40});
  hf.bf16("model.layers.1.self_attn.v_proj.weight", {16, 40});
  hf.bf16("model.layers.1.self_attn.o_proj.weight", {40, 64});
  hf.bf16("model.layers.1.mlp.gate_proj.weight", {96, 40});
  hf.bf16("model.layers.1.mlp.up_proj.weight", {96, 40});
  hf.bf16("model.layers.1.mlp.down_proj.weight", {40, 96});
  ModelFixture gguf = ModelFixture::gguf("llama");
  gguf.bf16("blk.1.attn_q.weight", {64, 40});
  gguf.bf16("blk.1.attn_k.weight", {16, 40});
  gguf.bf16("blk.1.attn_v.weight", {16, 40});
  gguf.bf16("blk.1.attn_output.weight", {40, 64});
  gguf.bf16("blk.1.ffn_gate.weight", {96, 40});
  gguf.bf16("blk.1.ffn_up.weight", {96, 40});
  gguf.bf16("blk.1.ffn_down.weight", {40, 96});
  const ModelIndex a = hf.index();
  const ModelIndex b = gguf.index();
  ASSERT_EQ(a.matrices.size(), 7U);
  ASSERT_EQ(b.matrices.size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(describe(a.matrices[i]), describe(b.matrices[i]));
  }
  EXPECT_EQ(describe(a.matrices[0]), "1/attention/q_proj/-1/-1 64x40");
  EXPECT_EQ(describe(a.matrices[6]), "1/dense_mlp/down_proj/-1/-1 40x96");
}

}  // namespace
}  // namespace vindex::model::families_test
