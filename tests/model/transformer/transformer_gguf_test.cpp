// What families compute as GGUF says it: llama.cpp's architectures, keys and names.
#include "transformer_fixture.hpp"

namespace vindex::model::transformer_gguf_test {
namespace {

using Windows = std::vector<std::int64_t>;

MadeDecoder plain(const std::string& architecture, std::int64_t layers = 2) {
  return MadeDecoder::gguf(architecture, layers).ends().layer(kGgufLayer);
}

TEST(TransformerGguf, LlamaTurnsNeighbours) {
  MadeDecoder made = plain("llama").real("rope.freq_base", 500000.0);
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.family, "llama");
  EXPECT_EQ(decoder.norm_eps, 1e-5);
  EXPECT_EQ(decoder.norm_offset, 0.0);
  EXPECT_EQ(made.name(decoder.final_norm), "output_norm.weight");
  const TransformerLayer& layer = decoder.layers[1];
  EXPECT_EQ(made.name(layer.attention_norm), "blk.1.attn_norm.weight");
  EXPECT_EQ(made.name(layer.ffn_norm), "blk.1.ffn_norm.weight");
  EXPECT_EQ(made.name(layer.attention.o.weight), "blk.1.attn_output.weight");
  EXPECT_TRUE(layer.attention.rope.interleaved);
  EXPECT_NEAR(layer.attention.rope.frequencies[1] / (std::pow(500000.0, -1.0 / 8)), 1.0, 2e-7);
  EXPECT_EQ(layer.attention.kv_heads, 2);
  EXPECT_EQ(plain("llama").number("attention.sliding_window", 9).read().layers[0].attention.window,
            9);
}

TEST(TransformerGguf, HalvesTurnWhereLlamaCppSaysNeox) {
  const std::string norms = "attn_q_norm 16 attn_k_norm 16";
  EXPECT_FALSE(plain("qwen3").layer(norms).read().layers[0].attention.rope.interleaved);
  EXPECT_FALSE(plain("gemma").read().layers[0].attention.rope.interleaved);
  EXPECT_TRUE(plain("granite").read().layers[0].attention.rope.interleaved);
}

TEST(TransformerGguf, MixtralIsALlamaWithExperts) {
  MadeDecoder made = MadeDecoder::gguf("llama")
                         .number("expert_count", 4)
                         .number("expert_used_count", 2)
                         .ends()
                         .layer(kGgufNorms + kGgufAttention + kGgufRouted);
  const Transformer decoder = made.read();
  const Mixture& mixture = *decoder.layers[1].mixture;
  EXPECT_EQ(mixture.experts.size(), 4U);
  EXPECT_EQ(made.name(mixture.experts[3].gate.weight), "blk.1.ffn_gate_exps.weight[3]");
  EXPECT_TRUE(mixture.rule.normalised);
}

TEST(TransformerGguf, Qwen2MoeKeepsItsSharedGateAsAVector) {
  MadeDecoder made = MadeDecoder::gguf("qwen2moe")
                         .number("expert_used_count", 2)
                         .ends()
                         .layer(kGgufNorms + kGgufAttention + kGgufRouted +
                                "attn_q.bias 64 attn_k.bias 32 attn_v.bias 32 "
                                "ffn_gate_shexp 10x32 ffn_up_shexp 10x32 ffn_down_shexp 32x10 "
                                "ffn_gate_inp_shexp 32");
  const Mixture mixture = *made.read().layers[1].mixture;
  EXPECT_EQ(made.name(mixture.shared_gate), "blk.1.ffn_gate_inp_shexp.weight");
  EXPECT_EQ(mixture.shared->neurons, 10);
  EXPECT_FALSE(mixture.rule.normalised);
}

TEST(TransformerGguf, GemmasKnowTheirNormsWithTheOffset) {
  const std::string around = kGgufLayer + "post_attention_norm 32 post_ffw_norm 32 ";
  MadeDecoder second = MadeDecoder::gguf("gemma2", 3).ends().layer(around);
  Transformer decoder = second.read();
  EXPECT_EQ(decoder.norm_offset, 0.0);
  EXPECT_EQ(decoder.gating, Gating::kGeluTanh);
  EXPECT_EQ(decoder.embedding_factor, std::sqrt(32.0));
  EXPECT_EQ(decoder.logit_soft_cap, 30.0);
  EXPECT_EQ(decoder.layers[0].attention.soft_cap, 50.0);
  EXPECT_EQ(decoder.layers[0].attention.scale, 0.25);
  EXPECT_EQ(windows_of(decoder), (Windows{4096, 0, 4096}));
  EXPECT_EQ(second.name(decoder.layers[0].attention_post_norm), "blk.0.post_attention_norm.weight");
  EXPECT_EQ(second.name(decoder.layers[0].ffn_post_norm), "blk.0.post_ffw_norm.weight");
  const auto third = [&](std::int64_t layers) {
    return MadeDecoder::gguf("gemma3", layers)
        .number("attention.sliding_window", 7)
        .real("rope.freq_base", 1e6)
        .text("rope.scaling.type", "linear")
        .real("rope.scaling.factor", 8.0)
        .ends()
        .layer(around + "attn_q_norm 16 attn_k_norm 16");
  };
  decoder = third(7).read();
  EXPECT_EQ(windows_of(decoder), (Windows{7, 7, 7, 7, 7, 0, 7}));
  EXPECT_EQ(decoder.logit_soft_cap, 0.0);
  EXPECT_NEAR(decoder.layers[0].attention.rope.frequencies[1] / (std::pow(1e4, -1.0 / 8)), 1.0,
              2e-7);
  EXPECT_NEAR(decoder.layers[5].attention.rope.frequencies[1] / (std::pow(1e6, -1.0 / 8) / 8), 1.0,
              2e-7);
  // The model of 62 layers scales by heads of hidden / heads components.
  EXPECT_EQ(third(62).read().layers[0].attention.scale, 1.0 / std::sqrt(8.0));
}

TEST(TransformerGguf, Phi3ReadsItsFactorsFromTensors) {
  MadeDecoder made =
      MadeDecoder::gguf("phi3", 1)
          .number("rope.dimension_count", 12)
          .ends()
          .layer(kGgufNorms + "attn_qkv 128x32 attn_output 32x64 ffn_up 48x32 ffn_down 32x24");
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.layers[0].attention.rope.dims, 12);
  EXPECT_EQ(decoder.layers[0].attention.v.weight.rows.first, 96);
  EXPECT_EQ(decoder.layers[0].dense->up.weight.rows.first, 24);
}

TEST(TransformerGguf, GptOssNamesItsSecondNormOtherwise) {
  MadeDecoder made =
      MadeDecoder::gguf("gpt-oss", 3)
          .number("attention.sliding_window", 5)
          .number("expert_used_count", 2)
          .ends()
          .layer(
              "attn_norm 32 post_attention_norm 32 attn_sinks 4 attn_q.bias 64 attn_k.bias 32 "
              "attn_v.bias 32 attn_output.bias 32 ffn_gate_inp.bias 4 ffn_gate_exps.bias 4x14 "
              "ffn_up_exps.bias 4x14 ffn_down_exps.bias 4x32 " +
              kGgufAttention + kGgufRouted);
  const Transformer decoder = made.read();
  EXPECT_EQ(made.name(decoder.layers[1].ffn_norm), "blk.1.post_attention_norm.weight");
  EXPECT_FALSE(decoder.layers[1].attention_post_norm);
  EXPECT_EQ(windows_of(decoder), (Windows{5, 0, 5}));
  EXPECT_EQ(decoder.gating_limit, 7.0);
  const FeedForward& last = decoder.layers[2].mixture->experts[3];
  EXPECT_EQ(last.gate.weight.rows.step, 1);
  EXPECT_EQ(last.gate.bias.first, 3 * 14);
  EXPECT_EQ(last.gate.bias.count, 14);
  EXPECT_EQ(made.name(last.down.bias), "blk.2.ffn_down_exps.bias");
}

/// Latent attention before and since llama.cpp split kv_b.
MadeDecoder latent(bool split) {
  MadeDecoder made = MadeDecoder::gguf("deepseek2", 1)
                         .number("attention.kv_lora_rank", 18)
                         .number("rope.dimension_count", 8)
                         .ends()
                         .layer(kGgufNorms + kGgufDense + kGgufLatent);
  if (split) {
    made.number("attention.key_length", 26).number("attention.value_length", 18);
    made.number("attention.key_length_mla", 20).number("attention.value_length_mla", 10);
    return made.layer("attn_k_b 4x18x12 attn_v_b 4x10x18");
  }
  made.number("attention.key_length", 20).number("attention.value_length", 10);
  return made.layer("attn_kv_b 88x18");
}

TEST(TransformerGguf, DeepSeekKeepsKvBWholeOrByHeads) {
  Attention attention = latent(false).read().layers[0].attention;
  EXPECT_TRUE(attention.kv_b);
  EXPECT_EQ(attention.head_dim, 20);
  EXPECT_EQ(attention.value_dim, 10);
  EXPECT_EQ(attention.latent_rank, 18);
  EXPECT_EQ(attention.latent_eps, 1e-5);  // llama.cpp has one for all norms
  EXPECT_TRUE(attention.rope.interleaved);
  MadeDecoder split = latent(true);
  attention = split.read().layers[0].attention;
  EXPECT_FALSE(attention.kv_b);
  EXPECT_TRUE(attention.k_b_transposed);
  ASSERT_EQ(attention.k_b_heads.size(), 4U);
  const MatrixRecord& third =
      split.index.matrices[static_cast<std::size_t>(attention.k_b_heads[2])];
  EXPECT_EQ(matrix_name(third), "blk.0.attn_k_b.weight[2]");
  EXPECT_EQ(third.rows, 18);
}

TEST(TransformerGguf, PredictionLayersAreCountedInBlocks) {
  MadeDecoder made = MadeDecoder::gguf("llama", 3)
                         .number("nextn_predict_layers", 1)
                         .ends()
                         .layer(kGgufLayer, 0, 2)
                         .layer("nextn.eh_proj 32x64 nextn.enorm 32", 2, 3);
  EXPECT_EQ(made.read().layers.size(), 2U);
}

TEST(TransformerGguf, GraniteMultipliesByItsKeys) {
  MadeDecoder made = plain("granite")
                         .real("attention.scale", 0.5)
                         .real("residual_scale", 0.25)
                         .real("embedding_scale", 12.0)
                         .real("logit_scale", 4.0);
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.layers[0].attention.scale, 0.5);
  EXPECT_EQ(decoder.residual_factor, 0.25);
  EXPECT_EQ(decoder.embedding_factor, 12.0);
  EXPECT_EQ(decoder.logit_factor, 0.25);
  EXPECT_EQ(plain("granite").read().layers[0].attention.scale, 0.25);
}

TEST(TransformerGguf, RefusesWhatItDoesNotCompute) {
  EXPECT_EQ(plain("qwen").outcome(), "E-TRACE-FAMILY 78");
  EXPECT_EQ(plain("gemma").number("attention.sliding_window", 9).outcome(), "E-TRACE-KEY 78");
  EXPECT_EQ(plain("llama").text("rope.scaling.type", "twisted").outcome(), "E-TRACE-KEY 78");
  EXPECT_EQ(plain("llama").real("attention.temperature_scale", 0.1).outcome(), "E-TRACE-KEY 78");
  EXPECT_EQ(plain("llama").number("rope.dimension_count", 20).outcome(), "E-TRACE-KEY 78");
  EXPECT_EQ(plain("llama").number("nextn_predict_layers", 2).outcome(), "E-TRACE-KEY 78");
  EXPECT_EQ(plain("qwen2").outcome(), "E-TRACE-TENSOR 65");  // no biases
  EXPECT_EQ(latent(true).layer("attn_k_b 3x18x12", 1, 2).outcome(), "E-TRACE-TENSOR 65");
}

}  // namespace
}  // namespace vindex::model::transformer_gguf_test
