// What families compute, by small made models: for each what it has of its own. Sources of what is
// expected: transformers' modelling and configuration files (5.23), llama.cpp's src/models.
#include "transformer_fixture.hpp"

namespace vindex::model::transformer_test {
namespace {

using Windows = std::vector<std::int64_t>;

/// A decoder of `type` with plain layers.
MadeDecoder plain(const std::string& type, const std::string& keys = "", std::int64_t layers = 2) {
  return MadeDecoder::config(type, keys, layers).ends().layer(kPlainLayer);
}

TEST(TransformerFamilies, LlamaIsPlain) {
  MadeDecoder made = plain("llama", R"("rms_norm_eps": 1e-5, "rope_theta": 500000.0, )");
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.family, "llama");
  EXPECT_EQ(decoder.hidden, 32);
  EXPECT_EQ(decoder.vocabulary, 40);
  EXPECT_EQ(decoder.context, 64);
  EXPECT_EQ(decoder.norm_eps, 1e-5);
  EXPECT_EQ(decoder.norm_offset, 0.0);
  EXPECT_EQ(decoder.gating, Gating::kSilu);
  EXPECT_EQ(decoder.embedding_factor, 1.0);
  EXPECT_EQ(decoder.residual_factor, 1.0);
  EXPECT_EQ(decoder.logit_factor, 1.0);
  EXPECT_EQ(decoder.logit_soft_cap, 0.0);
  EXPECT_EQ(made.name(decoder.output), "lm_head.weight");
  EXPECT_EQ(made.name(decoder.final_norm), "model.norm.weight");
  ASSERT_EQ(decoder.layers.size(), 2U);
  const TransformerLayer& layer = decoder.layers[1];
  EXPECT_EQ(layer.number, 1);
  EXPECT_EQ(made.name(layer.attention_norm), "model.layers.1.input_layernorm.weight");
  EXPECT_EQ(made.name(layer.ffn_norm), "model.layers.1.post_attention_layernorm.weight");
  EXPECT_FALSE(layer.attention_post_norm);
  EXPECT_FALSE(layer.ffn_post_norm);
  const Attention& attention = layer.attention;
  EXPECT_EQ(attention.heads, 4);
  EXPECT_EQ(attention.kv_heads, 2);
  EXPECT_EQ(attention.head_dim, 16);
  EXPECT_EQ(attention.value_dim, 16);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.window, 0);
  EXPECT_EQ(attention.rope.dims, 16);
  EXPECT_FALSE(attention.rope.interleaved);
  EXPECT_NEAR(attention.rope.frequencies[1] / (std::pow(500000.0, -1.0 / 8)), 1.0, 2e-7);
  EXPECT_FALSE(attention.is_latent());
  EXPECT_EQ(made.name(attention.v.weight), "model.layers.1.self_attn.v_proj.weight");
  EXPECT_FALSE(attention.q.bias);
  ASSERT_TRUE(layer.dense);
  EXPECT_EQ(layer.dense->neurons, 24);
  EXPECT_EQ(made.name(layer.dense->gate.weight), "model.layers.1.mlp.gate_proj.weight");
  EXPECT_EQ(made.name(layer.dense->down.weight), "model.layers.1.mlp.down_proj.weight");
}

TEST(TransformerFamilies, EmbeddingsMayBeTied) {
  MadeDecoder made = MadeDecoder::config("llama", R"("tie_word_embeddings": true, )")
                         .add("", "model.embed_tokens 40x32 model.norm 32")
                         .layer(kPlainLayer);
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.output.matrix, decoder.embedding);
  EXPECT_EQ(decoder.output.rows.count, 40);
}

TEST(TransformerFamilies, BiasesAreTakenWhereTheyAre) {
  MadeDecoder made = plain("llama", R"("attention_bias": true, "mlp_bias": true, )")
                         .layer(
                             "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 "
                             "self_attn.v_proj.bias 32 self_attn.o_proj.bias 32 "
                             "mlp.gate_proj.bias 24 mlp.up_proj.bias 24 mlp.down_proj.bias 32");
  const Transformer decoder = made.read();
  const TransformerLayer& layer = decoder.layers[1];
  EXPECT_EQ(made.name(layer.attention.o.bias), "model.layers.1.self_attn.o_proj.bias");
  EXPECT_EQ(layer.attention.q.bias.count, 64);
  EXPECT_EQ(made.name(layer.dense->up.bias), "model.layers.1.mlp.up_proj.bias");
}

TEST(TransformerFamilies, WindowsOfEachFamily) {
  const std::string on = R"("sliding_window": 7, "use_sliding_window": true, )";
  const std::string off = R"("sliding_window": 7, "use_sliding_window": false, )";
  const std::string bounded = on + R"("max_window_layers": 2, )";
  const std::string biases =
      "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 self_attn.v_proj.bias 32";
  const std::string norms = "self_attn.q_norm 16 self_attn.k_norm 16";
  const auto windows = [](MadeDecoder made) { return windows_of(made.read()); };
  EXPECT_EQ(windows(plain("llama", on, 3)), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(plain("mistral", R"("sliding_window": 7, )")), (Windows{7, 7}));
  EXPECT_EQ(windows(plain("mistral", R"("sliding_window": null, )")), (Windows{0, 0}));
  EXPECT_EQ(windows(plain("mistral")), (Windows{4096, 4096}));
  EXPECT_EQ(windows(plain("ministral",
                          R"("sliding_window": 7, "layer_types": ["sliding_attention",
                             "full_attention", "sliding_attention"], )",
                          3)),
            (Windows{7, 0, 7}));
  EXPECT_EQ(windows(plain("qwen2", off, 3).layer(biases)), (Windows{0, 0, 0}));
  EXPECT_EQ(windows(plain("qwen2", bounded, 3).layer(biases)), (Windows{0, 0, 7}));
  EXPECT_EQ(windows(plain("qwen2_moe", bounded, 4).layer(biases)), (Windows{7, 0, 0, 0}));
  EXPECT_EQ(windows(plain("qwen3", bounded, 3).layer(norms)), (Windows{0, 0, 7}));
  EXPECT_EQ(windows(plain("qwen3_moe", on, 3).layer(norms)), (Windows{7, 7, 7}));
}

TEST(TransformerFamilies, Gemma2StandsBetweenNormsAndCaps) {
  const auto made = [](const std::string& keys) {
    return MadeDecoder::config("gemma2", keys, 3)
        .ends()
        .layer(kAroundNorms + kPlainAttention + kPlainDense);
  };
  MadeDecoder usual = made(R"("query_pre_attn_scalar": 144, "sliding_window": 7, )");
  Transformer decoder = usual.read();
  EXPECT_EQ(decoder.norm_offset, 1.0);
  EXPECT_EQ(decoder.gating, Gating::kGeluTanh);
  EXPECT_EQ(decoder.embedding_factor, std::sqrt(32.0));
  EXPECT_EQ(decoder.logit_soft_cap, 30.0);
  EXPECT_EQ(windows_of(decoder), (Windows{7, 0, 7}));
  const TransformerLayer& layer = decoder.layers[1];
  EXPECT_EQ(layer.attention.scale, 1.0 / 12.0);
  EXPECT_EQ(layer.attention.soft_cap, 50.0);
  EXPECT_EQ(usual.name(layer.attention_post_norm),
            "model.layers.1.post_attention_layernorm.weight");
  EXPECT_EQ(usual.name(layer.ffn_norm), "model.layers.1.pre_feedforward_layernorm.weight");
  EXPECT_EQ(usual.name(layer.ffn_post_norm), "model.layers.1.post_feedforward_layernorm.weight");
  decoder = made(R"("attn_logit_softcapping": null, "final_logit_softcapping": 4.0, )").read();
  EXPECT_EQ(decoder.layers[0].attention.soft_cap, 0.0);
  EXPECT_EQ(decoder.logit_soft_cap, 4.0);
}

TEST(TransformerFamilies, Gemma3TurnsLayersWithAWindowByABaseOfTheirOwn) {
  const auto made = [](const std::string& keys, std::int64_t layers) {
    return MadeDecoder::config("gemma3_text", keys, layers)
        .ends()
        .layer(kAroundNorms + kPlainAttention + kPlainDense +
               "self_attn.q_norm 16 self_attn.k_norm 16");
  };
  const std::string window = R"("sliding_window": 7, "query_pre_attn_scalar": 16, )";
  const std::string older = window + R"("rope_theta": 2e6, "rope_local_base_freq": 3e4,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}, )";
  const std::string newer = window + R"("rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
      "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}}, )";
  for (const std::string& keys : {older, newer}) {
    const Transformer decoder = made(keys, 7).read();
    EXPECT_EQ(windows_of(decoder), (Windows{7, 7, 7, 7, 7, 0, 7}));
    EXPECT_EQ(decoder.logit_soft_cap, 0.0);
    const Attention& local = decoder.layers[4].attention;
    const Attention& global = decoder.layers[5].attention;
    EXPECT_EQ(local.soft_cap, 0.0);
    EXPECT_EQ(local.scale, 0.25);
    EXPECT_EQ(local.q_norm.count, 16);
    EXPECT_NEAR(local.rope.frequencies[0], 1.0, 2e-7);
    EXPECT_NEAR(local.rope.frequencies[1] / (std::pow(3e4, -1.0 / 8)), 1.0, 2e-7);
    EXPECT_NEAR(global.rope.frequencies[0] / (1.0 / 8), 1.0, 2e-7);
    EXPECT_NEAR(global.rope.frequencies[1] / (std::pow(2e6, -1.0 / 8) / 8), 1.0, 2e-7);
  }
  EXPECT_EQ(windows_of(made(window + R"("sliding_window_pattern": 2, )", 4).read()),
            (Windows{7, 0, 7, 0}));
  EXPECT_EQ(made(window + R"("rope_parameters": {"rope_theta": 5.0}, )", 1).outcome(),
            "E-TRACE-KEY 78");
}

TEST(TransformerFamilies, WrappersHoldTheirDecoderInside) {
  MadeDecoder made = MadeDecoder::config("gemma3_text", "", 6);
  made.fixture->files().config = parse_json(
      R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text", "hidden_size": 32,
          "num_hidden_layers": 6, "sliding_window": 9}, "vision_config": {"hidden_size": 99}})",
      "config.json", {});
  // Published ones leave out that there are 8 heads.
  for (int layer = 0; layer < 6; ++layer) {
    made.add("language_model.model.layers." + std::to_string(layer) + ".",
             kAroundNorms + kPlainDense +
                 "self_attn.q_proj 96x32 self_attn.k_proj 24x32 self_attn.v_proj 24x32 "
                 "self_attn.o_proj 32x96 self_attn.q_norm 12 self_attn.k_norm 12");
  }
  made.add("language_model.model.", "embed_tokens 40x32 norm 32");
  made.add("vision_tower.vision_model.encoder.layers.7.", "layer_norm1 99 self_attn.q_proj 99x99");
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.family, "gemma3_text");
  EXPECT_EQ(decoder.layers.size(), 6U);
  EXPECT_EQ(decoder.layers[0].attention.heads, 8);
  EXPECT_EQ(decoder.layers[0].attention.kv_heads, 2);
  EXPECT_EQ(windows_of(decoder), (Windows{9, 9, 9, 9, 9, 0}));
  EXPECT_EQ(decoder.output.matrix, decoder.embedding);
}

TEST(TransformerFamilies, GemmaMeansTheApproximationByGelu) {
  const Transformer decoder = plain("gemma", R"("hidden_act": "gelu", )").read();
  EXPECT_EQ(decoder.gating, Gating::kGeluTanh);
  EXPECT_EQ(decoder.norm_offset, 1.0);
  EXPECT_EQ(decoder.embedding_factor, std::sqrt(32.0));
  EXPECT_EQ(plain("llama", R"("hidden_act": "gelu", )").read().gating, Gating::kGelu);
}

TEST(TransformerFamilies, Phi3IsFused) {
  MadeDecoder made =
      MadeDecoder::config("phi3", R"("partial_rotary_factor": 0.75, "sliding_window": 7, )")
          .ends()
          .layer(kPlainNorms +
                 "self_attn.qkv_proj 128x32 self_attn.o_proj 32x64 mlp.gate_up_proj 48x32 "
                 "mlp.down_proj 32x24");
  const Transformer decoder = made.read();
  EXPECT_EQ(windows_of(decoder), (Windows{7, 7}));
  EXPECT_EQ(decoder.norm_eps, 1e-5);
  const Attention& attention = decoder.layers[0].attention;
  EXPECT_EQ(attention.q.weight.matrix, attention.v.weight.matrix);
  EXPECT_EQ(attention.q.weight.rows.first, 0);
  EXPECT_EQ(attention.q.weight.rows.count, 64);
  EXPECT_EQ(attention.k.weight.rows.first, 64);
  EXPECT_EQ(attention.v.weight.rows.first, 96);
  EXPECT_EQ(attention.v.weight.rows.count, 32);
  EXPECT_EQ(attention.kv_heads, 2);
  EXPECT_EQ(attention.rope.dims, 12);
  const FeedForward& dense = *decoder.layers[0].dense;
  EXPECT_EQ(dense.gate.weight.matrix, dense.up.weight.matrix);
  EXPECT_EQ(dense.gate.weight.rows.first, 0);
  EXPECT_EQ(dense.up.weight.rows.first, 24);
  EXPECT_EQ(dense.neurons, 24);
}

TEST(TransformerFamilies, OlmoesNormsAreOfAllHeads) {
  MadeDecoder made = MadeDecoder::config("olmoe", R"("num_experts_per_tok": 2, "clip_qkv": 3.0, )")
                         .ends()
                         .layer(kPlainNorms + kPlainAttention + kRouted +
                                "self_attn.q_norm 64 self_attn.k_norm 32");
  const Transformer decoder = made.read();
  const Attention& attention = decoder.layers[0].attention;
  EXPECT_EQ(attention.q_norm.count, 64);
  EXPECT_EQ(attention.k_norm.count, 32);
  EXPECT_EQ(attention.clip, 3.0);
  EXPECT_FALSE(decoder.layers[0].mixture->rule.normalised);
}

TEST(TransformerFamilies, Olmo2HasNormsBehindItsBlocksAlone) {
  MadeDecoder made = MadeDecoder::config("olmo2").ends().layer(
      "post_attention_layernorm 32 post_feedforward_layernorm 32 self_attn.q_norm 64 "
      "self_attn.k_norm 32 " +
      kPlainAttention + kPlainDense);
  const TransformerLayer layer = made.read().layers[0];
  EXPECT_FALSE(layer.attention_norm);
  EXPECT_FALSE(layer.ffn_norm);
  EXPECT_EQ(made.name(layer.attention_post_norm), "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(made.name(layer.ffn_post_norm), "model.layers.0.post_feedforward_layernorm.weight");
}

TEST(TransformerFamilies, GraniteMultiplies) {
  const Transformer decoder =
      plain("granite", R"("embedding_multiplier": 12.0, "residual_multiplier": 0.25,
                          "attention_multiplier": 0.125, "logits_scaling": 8.0, )")
          .read();
  EXPECT_EQ(decoder.embedding_factor, 12.0);
  EXPECT_EQ(decoder.residual_factor, 0.25);
  EXPECT_EQ(decoder.logit_factor, 0.125);
  EXPECT_EQ(decoder.layers[0].attention.scale, 0.125);
}

TEST(TransformerFamilies, GraniteMoeStacksItsExperts) {
  MadeDecoder made = MadeDecoder::config("granitemoe", R"("num_experts_per_tok": 2, )")
                         .ends()
                         .layer(kPlainNorms + kPlainAttention +
                                "block_sparse_moe.router.layer 4x32 "
                                "block_sparse_moe.input_linear 4x28x32 "
                                "block_sparse_moe.output_linear 4x32x14");
  const Transformer decoder = made.read();
  const Mixture& mixture = *decoder.layers[1].mixture;
  ASSERT_EQ(mixture.experts.size(), 4U);
  EXPECT_EQ(made.name(mixture.experts[2].up.weight),
            "model.layers.1.block_sparse_moe.input_linear.weight[2]");
  EXPECT_EQ(mixture.experts[2].up.weight.rows.first, 14);
  EXPECT_EQ(mixture.experts[2].neurons, 14);
  EXPECT_TRUE(mixture.rule.normalised);
}

TEST(TransformerFamilies, MixtralHasOneTensorForEachExpert) {
  std::string experts = "block_sparse_moe.gate 3x32 ";
  for (const char* number : {"0", "1", "2"}) {
    const std::string stem = std::string("block_sparse_moe.experts.") + number;
    experts += stem + ".w1 14x32 " + stem + ".w3 14x32 " + stem + ".w2 32x14 ";
  }
  MadeDecoder made =
      MadeDecoder::config("mixtral", R"("num_experts_per_tok": 2, "sliding_window": null, )")
          .ends()
          .layer(kPlainNorms + kPlainAttention + experts);
  const Transformer decoder = made.read();
  const Mixture& mixture = *decoder.layers[1].mixture;
  ASSERT_EQ(mixture.experts.size(), 3U);
  EXPECT_EQ(made.name(mixture.experts[1].down.weight),
            "model.layers.1.block_sparse_moe.experts.1.w2.weight");
  EXPECT_EQ(mixture.rule, (RouterRule{.top_k = 2, .normalised = true}));
  EXPECT_NEAR(decoder.layers[0].attention.rope.frequencies[4] / (1e-3), 1.0, 2e-7);
}

TEST(TransformerFamilies, Qwen2MoeGatesItsSharedExpert) {
  MadeDecoder made =
      MadeDecoder::config("qwen2_moe", R"("num_experts_per_tok": 2, "mlp_only_layers": [0], )")
          .ends()
          .layer(kPlainNorms + kPlainAttention +
                 "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 self_attn.v_proj.bias 32")
          .layer(kPlainDense, 0, 1)
          .layer(kRouted +
                     "mlp.shared_expert.gate_proj 10x32 mlp.shared_expert.up_proj 10x32 "
                     "mlp.shared_expert.down_proj 32x10 mlp.shared_expert_gate 1x32",
                 1);
  const Transformer decoder = made.read();
  EXPECT_TRUE(decoder.layers[0].dense);
  const Mixture& mixture = *decoder.layers[1].mixture;
  EXPECT_EQ(mixture.shared->neurons, 10);
  EXPECT_EQ(made.name(mixture.shared_gate), "model.layers.1.mlp.shared_expert_gate.weight");
  EXPECT_EQ(mixture.shared_gate.count, 32);
  EXPECT_TRUE(decoder.layers[1].attention.k.bias);
}

TEST(TransformerFamilies, DeepSeekV3IsLatentWithPredictionLayersBehind) {
  MadeDecoder made =
      MadeDecoder::config("deepseek_v3",
                          kLatentKeys.substr(0, kLatentKeys.find("\"num_nextn")) +
                              R"("num_nextn_predict_layers": 1, "num_experts_per_tok": 2,
                                 "n_group": 2, "topk_group": 1, "rms_norm_eps": 1e-5,
                                 "routed_scaling_factor": 2.5, )",
                          2)
          .ends()
          .layer(kPlainNorms + kLatentAttention)
          .layer(kPlainDense, 0, 1)
          .layer(kRouted + "mlp.gate.e_score_correction_bias 4", 1)
          .layer("eh_proj 32x64 enorm 32 shared_head.norm 32", 2, 3);
  const Transformer decoder = made.read();
  ASSERT_EQ(decoder.layers.size(), 2U);
  EXPECT_EQ(decoder.norm_eps, 1e-5);
  const Attention& attention = decoder.layers[1].attention;
  EXPECT_EQ(attention.latent_rank, 18);
  EXPECT_EQ(attention.head_dim, 20);
  EXPECT_EQ(attention.value_dim, 10);
  EXPECT_EQ(attention.kv_heads, 4);
  EXPECT_EQ(attention.latent_eps, 1e-6);
  EXPECT_EQ(attention.scale, 1.0 / std::sqrt(20.0));
  EXPECT_EQ(attention.rope.dims, 8);
  EXPECT_TRUE(attention.rope.interleaved);
  EXPECT_EQ(made.name(attention.q_a_norm), "model.layers.1.self_attn.q_a_layernorm.weight");
  EXPECT_FALSE(attention.q);
  EXPECT_TRUE(attention.kv_b);
  const Mixture& mixture = *decoder.layers[1].mixture;
  EXPECT_EQ(made.name(mixture.selection_bias), "model.layers.1.mlp.gate.e_score_correction_bias");
  EXPECT_EQ(mixture.rule.groups, 2);
  EXPECT_TRUE(mixture.rule.biased);
  EXPECT_FALSE(mixture.shared);
}

TEST(TransformerFamilies, LatentQueriesMayBeWithoutARank) {
  const std::string keys = kLatentKeys + R"("rope_interleave": false, )";
  MadeDecoder made = MadeDecoder::config("deepseek_v3", keys, 1)
                         .ends()
                         .layer(kPlainNorms + kPlainDense + "self_attn.q_proj 80x32 " +
                                kLatentAttention.substr(kLatentAttention.find("self_attn.kv_a")));
  const Attention attention = made.read().layers[0].attention;
  EXPECT_TRUE(attention.q);
  EXPECT_FALSE(attention.q_a);
  EXPECT_FALSE(attention.rope.interleaved);
}

TEST(TransformerFamilies, GptOssHasSinksAndInterleavedHalves) {
  MadeDecoder made =
      MadeDecoder::config("gpt_oss",
                          R"("num_experts_per_tok": 2, "sliding_window": 5, "swiglu_limit": 6.0,
                             "rope_scaling": {"rope_type": "yarn", "factor": 32.0,
                               "original_max_position_embeddings": 4096, "truncate": false}, )",
                          3)
          .ends()
          .layer(kPlainNorms + kPlainAttention +
                 "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 self_attn.v_proj.bias 32 "
                 "self_attn.o_proj.bias 32 self_attn.sinks 4 mlp.router 4x32 mlp.router.bias 4 "
                 "mlp.experts.gate_up_proj 4x32x28 mlp.experts.gate_up_proj_bias 4x28 "
                 "mlp.experts.down_proj 4x14x32 mlp.experts.down_proj_bias 4x32");
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.gating, Gating::kClamped);
  EXPECT_EQ(decoder.gating_limit, 6.0);
  EXPECT_EQ(windows_of(decoder), (Windows{5, 0, 5}));
  EXPECT_EQ(made.name(decoder.layers[1].attention.sinks), "model.layers.1.self_attn.sinks");
  const Mixture& mixture = *decoder.layers[1].mixture;
  EXPECT_EQ(made.name(mixture.router.bias), "model.layers.1.mlp.router.bias");
  const FeedForward& third = mixture.experts[2];
  EXPECT_EQ(third.neurons, 14);
  EXPECT_EQ(third.gate.weight.rows.first, 0);
  EXPECT_EQ(third.gate.weight.rows.step, 2);
  EXPECT_EQ(third.up.weight.rows.first, 1);
  EXPECT_EQ(third.up.bias.first, 2 * 28 + 1);
  EXPECT_EQ(third.up.bias.step, 2);
  EXPECT_EQ(third.up.bias.count, 14);
  EXPECT_EQ(third.down.bias.first, 2 * 32);
  EXPECT_EQ(third.down.bias.step, 1);
}

// gpt-oss is published so: blocks of codes out x in, biases beside them under their own names.
TEST(TransformerFamilies, GptOssOfFourBitsKeepsItsBiases) {
  MadeDecoder made =
      MadeDecoder::config("gpt_oss",
                          R"("num_experts_per_tok": 2,
                             "rope_scaling": {"rope_type": "yarn", "factor": 32.0}, )",
                          1)
          .ends()
          .layer(kPlainNorms + kPlainAttention +
                 "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 self_attn.v_proj.bias 32 "
                 "self_attn.o_proj.bias 32 self_attn.sinks 4 mlp.router 4x32 mlp.router.bias 4 "
                 "mlp.experts.gate_up_proj_bias 4x64 mlp.experts.down_proj_bias 4x32");
  const std::string stem = "model.layers.0.mlp.experts.";
  for (const auto& [name, rows] : {std::pair("gate_up_proj", 64), std::pair("down_proj", 32)}) {
    made.fixture->add(stem + name + "_blocks", decode::ElementType::kU8, {4, rows, 1, 16});
    made.fixture->add(stem + name + "_scales", decode::ElementType::kU8, {4, rows, 1});
  }
  const Mixture mixture = *made.read().layers[0].mixture;
  EXPECT_EQ(mixture.experts[1].up.weight.rows.first, 1);
  EXPECT_EQ(mixture.experts[1].up.weight.rows.step, 2);
  EXPECT_EQ(mixture.experts[1].up.bias.first, 64 + 1);
  EXPECT_EQ(made.name(mixture.experts[1].down.bias), stem + "down_proj_bias");
}

TEST(TransformerFamilies, NamesAreInOrder) {
  for (const bool gguf : {false, true}) {
    const std::vector<std::string> names = traced_families(gguf);
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
    EXPECT_TRUE(std::find(names.begin(), names.end(), "llama") != names.end());
    EXPECT_TRUE(std::find(names.begin(), names.end(), gguf ? "gpt-oss" : "gpt_oss") != names.end());
  }
}

}  // namespace
}  // namespace vindex::model::transformer_test
