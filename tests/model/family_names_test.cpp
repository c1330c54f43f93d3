// What names mean, continued: every name of the newest families, and files that are no model.
#include "model_fixture.hpp"

namespace vindex::model::family_names_test {
namespace {

struct Named {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string place;
};

void expect_places(const std::string& model_type, const std::vector<Named>& names) {
  SCOPED_TRACE(model_type);
  ModelFixture fixture;
  fixture.config("model_type", model_type.c_str());
  for (const Named& one : names) {
    fixture.bf16(one.name, one.shape);
  }
  const ModelIndex index = fixture.index();
  for (const Named& one : names) {
    if (one.place.find('/') == std::string::npos) {
      EXPECT_EQ(find_tensor(index, one.name)->reason, one.place) << one.name;
    } else {
      EXPECT_EQ(only(index, one.name), one.place) << one.name;
    }
  }
  for (const std::string& id : warning_ids(index)) {
    EXPECT_NE(id, "W-ARCHITECTURE-UNKNOWN");
  }
}

TEST(FamilyNamesTest, KimiK3) {
  const std::string layer = "language_model.model.layers.4.";
  expect_places("kimi_k3",
                {{layer + "block_sparse_moe.experts.7.w1.weight",
                  {24, 36},
                  "4/routed_expert/gate_proj/7/-1 24x36"},
                 {layer + "block_sparse_moe.experts.7.w3.weight",
                  {24, 36},
                  "4/routed_expert/up_proj/7/-1 24x36"},
                 {layer + "block_sparse_moe.experts.7.w2.weight",
                  {36, 24},
                  "4/routed_expert/down_proj/7/-1 36x24"},
                 {layer + "block_sparse_moe.routed_expert_down_proj.weight",
                  {36, 48},
                  "4/routed_expert/routed_expert_down_proj/-1/-1 36x48"},
                 {layer + "block_sparse_moe.gate.weight", {8, 48}, "4/router/router/-1/-1 8x48"},
                 {layer + "block_sparse_moe.gate.e_score_correction_bias", {8}, "1-D"},
                 {layer + "block_sparse_moe.shared_experts.up_proj.weight",
                  {24, 48},
                  "4/shared_expert/up_proj/-1/-1 24x48"}});
}

TEST(FamilyNamesTest, DeepseekV32AndV4) {
  expect_places(
      "deepseek_v32",
      {{"model.layers.4.self_attn.indexer.wq_b.weight", {64, 24}, "4/attention/wq_b/-1/-1 64x24"},
       {"model.layers.4.self_attn.indexer.k_norm.weight", {24}, "1-D"},
       {"model.layers.4.mlp.experts.3.down_proj.weight",
        {48, 24},
        "4/routed_expert/down_proj/3/-1 48x24"}});
  expect_places(
      "deepseek_v4",
      {{"embed.weight", {90, 48}, "-1/embedding/embed_tokens/-1/-1 90x48"},
       {"head.weight", {90, 48}, "-1/output/lm_head/-1/-1 90x48"},
       {"layers.4.attn.wq_a.weight", {24, 48}, "4/attention/q_a_proj/-1/-1 24x48"},
       {"layers.4.attn.wo_a.weight", {24, 48}, "4/attention/wo_a/-1/-1 24x48"},
       {"layers.4.attn.compressor.wkv.weight", {24, 48}, "4/attention/wkv/-1/-1 24x48"},
       {"layers.4.ffn.gate.weight", {8, 48}, "4/router/router/-1/-1 8x48"},
       {"layers.4.ffn.experts.3.w2.weight", {48, 24}, "4/routed_expert/down_proj/3/-1 48x24"},
       {"layers.4.ffn.shared_experts.w1.weight",
        {24, 48},
        "4/shared_expert/gate_proj/-1/-1 24x48"}});
}

TEST(FamilyNamesTest, GlmMinimaxQwen3NextHunyuanErnie) {
  expect_places("glm4_moe",
                {{"model.layers.4.mlp.experts.3.gate_proj.weight",
                  {24, 48},
                  "4/routed_expert/gate_proj/3/-1 24x48"},
                 {"model.layers.4.mlp.shared_experts.gate_proj.weight",
                  {24, 48},
                  "4/shared_expert/gate_proj/-1/-1 24x48"},
                 {"model.layers.4.mlp.gate.weight", {8, 48}, "4/router/router/-1/-1 8x48"}});
  expect_places(
      "minimax_m2",
      {{"model.layers.4.block_sparse_moe.experts.3.w1.weight",
        {24, 48},
        "4/routed_expert/gate_proj/3/-1 24x48"},
       {"model.layers.4.block_sparse_moe.e_score_correction_bias", {8}, "1-D"},
       {"model.layers.4.block_sparse_moe.gate.weight", {8, 48}, "4/router/router/-1/-1 8x48"}});
  expect_places(
      "qwen3_next",
      {{"model.layers.4.linear_attn.in_proj_qkvz.weight",
        {96, 48},
        "4/ssm/in_proj_qkvz/-1/-1 96x48"},
       {"model.layers.4.linear_attn.out_proj.weight", {48, 24}, "4/ssm/out_proj/-1/-1 48x24"},
       {"model.layers.4.linear_attn.conv1d.weight", {96, 1, 4}, "convolution"},
       {"model.layers.4.mlp.shared_expert_gate.weight",
        {1, 48},
        "4/router/shared_expert_gate/-1/-1 1x48"},
       {"model.layers.4.mlp.experts.3.up_proj.weight",
        {24, 48},
        "4/routed_expert/up_proj/3/-1 24x48"}});
  expect_places("hunyuan_v1_moe",
                {{"model.layers.4.mlp.gate.wg.weight", {8, 48}, "4/router/router/-1/-1 8x48"},
                 {"model.layers.4.mlp.shared_mlp.up_proj.weight",
                  {24, 48},
                  "4/shared_expert/up_proj/-1/-1 24x48"}});
  expect_places("ernie4_5_moe",
                {{"model.layers.4.mlp.moe_statics.e_score_correction_bias", {1, 8}, "bias"},
                 {"model.layers.4.mlp.experts.3.down_proj.weight",
                  {48, 24},
                  "4/routed_expert/down_proj/3/-1 48x24"}});
}

TEST(FamilyNamesTest, MistralsOwnFiles) {
  expect_places(
      "mistral4",
      {{"tok_embeddings.weight", {90, 48}, "-1/embedding/embed_tokens/-1/-1 90x48"},
       {"layers.4.attention.wq_b.weight", {64, 24}, "4/attention/q_b_proj/-1/-1 64x24"},
       {"layers.4.attention.wkv_a_with_mqa.weight", {32, 48}, "4/attention/kv_a_proj/-1/-1 32x48"},
       {"layers.4.gate.weight", {8, 48}, "4/router/router/-1/-1 8x48"},
       {"layers.4.experts.3.w3.weight", {24, 48}, "4/routed_expert/up_proj/3/-1 24x48"},
       {"layers.4.shared_experts.w2.weight", {48, 24}, "4/shared_expert/down_proj/-1/-1 48x24"}});
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
}  // namespace vindex::model::family_names_test
