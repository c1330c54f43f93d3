// Names of GGUF and Hugging Face tensors sorted by hand.
#include "organ/source/organ_class.hpp"

#include "tests/support/expect_error.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::organ::organ_class_test {
namespace {

using enum OrganClass;

TEST(OrganClassTest, FirstMatchWins) {
  const std::vector<std::pair<std::string, OrganName>> names = {
      {"blk.0.attn_q.weight", {kSkeleton, false, 0}},
      {"blk.11.attn_q.bias", {kSkeleton, true, 11}},
      {"blk.3.attn_output.weight", {kSkeleton, false, 3}},
      {"blk.3.attn_kv_b.weight", {kSkeleton, false, 3}},
      {"blk.7.ssm_conv1d.weight", {kSkeleton, false, 7}},
      {"blk.7.time_mix_key.weight", {kSkeleton, false, 7}},
      {"blk.7.shortconv.in_proj.weight", {kSkeleton, false, 7}},
      {"blk.0.ffn_gate.weight", {kOrgan, false, 0}},
      {"blk.0.ffn_down_exps.weight", {kOrgan, false, 0}},
      {"blk.0.ffn_up_shexp.weight", {kOrgan, false, 0}},
      {"blk.0.ffn_gate_inp.weight", {kRouter, false, 0}},
      {"blk.0.ffn_gate_inp_shexp.weight", {kRouter, false, 0}},
      {"blk.0.exp_probs_b.bias", {kRouter, true, 0}},
      // Norms before what they belong to: the published tool had the order wrong.
      {"blk.0.attn_norm.weight", {kNorm, false, 0}},
      {"blk.0.attn_q_norm.weight", {kNorm, false, 0}},
      {"blk.0.attn_kv_a_norm.weight", {kNorm, false, 0}},
      {"blk.0.ffn_norm.weight", {kNorm, false, 0}},
      {"blk.0.attn_norm_2.weight", {kNorm, false, 0}},
      {"blk.0.post_ffw_norm.weight", {kNorm, false, 0}},
      {"blk.60.nextn.hnorm.weight", {kNorm, false, 60}},
      {"output_norm.weight", {kNorm, false, -1}},
      {"token_embd_norm.weight", {kNorm, false, -1}},
      {"token_embd.weight", {kEmbed, false, -1}},
      {"output.weight", {kEmbed, false, -1}},
      {"output.bias", {kEmbed, true, -1}},
      {"position_embd.weight", {kEmbed, false, -1}},
      {"token_types.weight", {kEmbed, false, -1}},
      {"cls.output.weight", {kEmbed, false, -1}},
      {"per_layer_token_embd.weight", {kEmbed, false, -1}},
      {"per_layer_proj_norm.weight", {kNorm, false, -1}},
      {"rope_freqs.weight", {kOther, false, -1}},
      {"rope_factors_long.weight", {kOther, false, -1}},
      {"blk.4.attn_q.weight.lora_a", {kAdapter, false, 4}},
      {"blk.4.ffn_up.weight.lora_b", {kAdapter, false, 4}},
      {"model.layers.5.self_attn.q_proj.lora_A.weight", {kAdapter, false, 5}},
      {"model.embed_tokens.weight", {kEmbed, false, -1}},
      {"lm_head.weight", {kEmbed, false, -1}},
      {"model.layers.5.self_attn.q_proj.weight", {kSkeleton, false, 5}},
      {"model.layers.5.self_attn.q_norm.weight", {kNorm, false, 5}},
      {"model.layers.5.input_layernorm.weight", {kNorm, false, 5}},
      {"model.layers.5.mlp.gate.weight", {kRouter, false, 5}},
      {"model.layers.5.mlp.gate_proj.weight", {kOrgan, false, 5}},
      {"model.layers.5.mlp.experts.17.down_proj.weight", {kOrgan, false, 5}},
      {"model.layers.5.mlp.gate.e_score_correction_bias", {kRouter, true, 5}},
      {"model.norm.weight", {kNorm, false, -1}},
      {"transformer.h.3.ln_1.weight", {kNorm, false, 3}},
      {"mean", {kOther, false, -1}},
  };
  for (const auto& [name, wanted] : names) {
    const OrganName found = classify(name);
    EXPECT_EQ(class_name(found.organ_class), class_name(wanted.organ_class)) << name;
    EXPECT_EQ(found.is_bias, wanted.is_bias) << name;
    EXPECT_EQ(found.block, wanted.block) << name;
  }
}

TEST(OrganClassTest, ListsOfTheCommandLine) {
  EXPECT_EQ(parse_classes("").size(), kOrganClasses);
  EXPECT_EQ(parse_classes("all").size(), kOrganClasses);
  EXPECT_EQ(parse_classes("organ"), (std::set{kOrgan, kRouter}));
  EXPECT_EQ(parse_classes("ffn"), (std::set{kOrgan}));
  EXPECT_EQ(parse_classes("skeleton,norm"), (std::set{kSkeleton, kNorm}));
  EXPECT_EQ(testing::error_of([] { (void)parse_classes("organs"); }), "E-ORGAN-TYPE");
  EXPECT_EQ(testing::error_of([] { (void)parse_classes("norm,"); }), "E-ORGAN-TYPE");
}

TEST(OrganClassTest, BlocksAreRenumbered) {
  EXPECT_EQ(with_block("blk.4.attn_q.weight", 17), "blk.17.attn_q.weight");
  EXPECT_EQ(with_block("model.layers.12.mlp.experts.3.up_proj.weight", 2),
            "model.layers.2.mlp.experts.3.up_proj.weight");
  EXPECT_EQ(with_block("output.weight", 17), "output.weight");
}

TEST(OrganClassTest, OddNamesEndNowhere) {
  for (const char* name :
       {"", ".", "blk", "blk.", "blk.x.", "blk.99999999999.a", "..", "layers.1"}) {
    (void)classify(name);
    (void)with_block(name, 3);
  }
  EXPECT_EQ(classify("blk.99999999999.a").block, -1);
}

}  // namespace
}  // namespace vindex::organ::organ_class_test
