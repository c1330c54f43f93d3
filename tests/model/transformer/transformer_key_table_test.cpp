// That no key of a traced family passes unnoticed: default configurations, published ones, and keys
// that are used by one side alone.
#include "model/keys/transformer_key_table.hpp"

#include "transformer_fixture.hpp"

#include "model/routers/read_router_rule.hpp"
#include "tests/support/file_content.hpp"

#include <filesystem>

namespace vindex::model::transformer_key_table_test {
namespace {

namespace fs = std::filesystem;

/// Warnings of a configuration, one line each.
std::string warned(const std::string& config) {
  input::ModelFiles files;
  files.config = parse_json(config, "config.json", {});
  const JsonValue* inner = files.config->find("text_config");
  const JsonValue& own = inner == nullptr ? *files.config : *inner;
  std::string text;
  for (const Warning& warning : trace_key_warnings(files, *own.find("model_type")->as_string())) {
    text += warning.id + " " + warning.text + "\n";
  }
  return text;
}

/// The keys that a warning lists.
std::string unused(const std::string& config) {
  const std::string text = warned(config);
  const std::size_t begin = text.find("follow them: ");
  return begin == std::string::npos ? std::string()
                                    : text.substr(begin + 13, text.find(';') - begin - 13);
}

// What transformers writes of every family, with every default (tests/data/trace/README.md).
TEST(TraceKeys, EveryKeyOfDefaultConfigurationsIsListed) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(VINDEX_SOURCE_DIR "/tests/data/trace")) {
    if (entry.path().extension() != ".json") {
      continue;
    }
    const JsonValue described = parse_json(testing::file_text(entry.path()), "golden", {});
    const JsonValue* whole = described.find("config");
    const JsonValue* inner = whole->find("text_config");
    const JsonValue& config = inner == nullptr ? *whole : *inner;
    const std::string family = *config.find("model_type")->as_string();
    for (const auto& [key, value] : *config.as_object()) {
      EXPECT_NE(key_rule(Dialect::kHuggingFace, family, key).use, KeyUse::kUnknown)
          << family << " " << key;
    }
    input::ModelFiles files;
    files.config = *whole;
    EXPECT_TRUE(trace_key_warnings(files, family).empty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 40);
}

TEST(TraceKeys, PublishedConfigurationsGiveNoWarning) {
  for (const char* config :
       {R"({"model_type": "llama", "_name_or_path": "x", "is_llama_config": true,
            "rope_interleaved": false, "torch_dtype": "bfloat16", "pretraining_tp": 1,
            "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192, "rope_type": "llama3"}})",
        R"({"model_type": "qwen2", "use_mrope": false, "max_window_layers": 28,
            "sliding_window": 131072, "use_sliding_window": false})",
        R"({"model_type": "deepseek_v2", "aux_loss_alpha": 0.001, "auto_map": {}, "ep_size": 1,
            "moe_layer_freq": 1, "norm_topk_prob": false, "scoring_func": "softmax",
            "seq_aux": true, "topk_method": "group_limited_greedy"})",
        R"({"model_type": "kimi_k2", "aux_loss_alpha": 0.001, "moe_layer_freq": 1,
            "norm_topk_prob": true, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
            "num_nextn_predict_layers": 0, "rope_scaling": {"type": "yarn", "mscale": 1.0,
            "mscale_all_dim": 1.0, "beta_fast": 1.0, "beta_slow": 1.0, "factor": 32.0,
            "original_max_position_embeddings": 4096}})",
        R"({"model_type": "gpt_oss", "experts_per_token": 4, "initial_context_length": 4096,
            "swiglu_limit": 7.0, "rope_scaling": {"truncate": false, "rope_type": "yarn"}})",
        R"({"model_type": "gemma2", "cache_implementation": "hybrid", "hidden_act": "gelu"})",
        R"({"model_type": "qwen3_moe", "max_window_layers": 48, "sliding_window": null})",
        R"({"model_type": "phi3", "full_attn_mod": 1, "interpolate_factor": 1,
            "lm_head_bias": false, "partial_rotary_factor": 0.75})",
        R"({"model_type": "gemma3", "sliding_window_pattern": 3, "vision_config": {"x": 1},
            "text_config": {"model_type": "gemma3_text", "sliding_window_pattern": 6}})"}) {
    EXPECT_EQ(warned(config), "") << config;
  }
}

TEST(TraceKeys, WhatNobodyIsKnownToReadIsNamed) {
  EXPECT_EQ(unused(R"({"model_type": "llama", "clip_qkv": 8.0, "hidden_size": 4})"), "clip_qkv");
  EXPECT_EQ(unused(R"({"model_type": "llama", "clip_qkv": null})"), "");
  EXPECT_EQ(unused(R"({"model_type": "olmoe", "clip_qkv": 8.0})"), "");
  EXPECT_EQ(unused(R"({"model_type": "mixtral", "scoring_func": "sigmoid",
                       "routed_scaling_factor": 2.0})"),
            "scoring_func, routed_scaling_factor");
  EXPECT_EQ(unused(R"({"model_type": "llama", "sliding_window": 4096})"), "sliding_window");
  EXPECT_EQ(unused(R"({"model_type": "deepseek_v2", "rope_interleave": false})"),
            "rope_interleave");
  EXPECT_EQ(unused(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 5.0})"),
            "attn_logit_softcapping");
  EXPECT_EQ(unused(R"({"model_type": "gemma", "embedding_multiplier": 3.0})"),
            "embedding_multiplier");
  EXPECT_EQ(unused(R"({"model_type": "qwen2", "use_mrope": true})"), "use_mrope");
  EXPECT_EQ(unused(R"({"model_type": "llama",
                       "rope_scaling": {"rope_type": "default", "mrope_section": [1]}})"),
            "rope_scaling.mrope_section");
  EXPECT_EQ(unused(R"({"model_type": "gemma3_text", "rope_parameters":
                       {"full_attention": {"rope_type": "linear", "odd": 1}}})"),
            "rope_parameters.full_attention.odd");
  EXPECT_EQ(unused(R"({"model_type": "gemma3", "text_config":
                       {"model_type": "gemma3_text", "logit_scale": 2.0}})"),
            "logit_scale");
  std::string many = R"({"model_type": "llama")";
  for (int i = 0; i < 40; ++i) {
    many += ", \"key" + std::to_string(i) + "\": 1";
  }
  EXPECT_NE(unused(many + "}").find("key11 and 28 more"), std::string::npos);
}

TEST(TraceKeys, WhatTransformersIgnoresIsSaid) {
  for (const auto& [config, key] : std::vector<std::pair<std::string, std::string>>{
           {R"({"model_type": "deepseek_v2", "norm_topk_prob": true})", "norm_topk_prob is true"},
           {R"({"model_type": "deepseek_v2", "scoring_func": "sigmoid"})", "scoring_func is"},
           {R"({"model_type": "deepseek_v3", "scoring_func": "softmax"})", "scoring_func is"},
           {R"({"model_type": "kimi_k2", "topk_method": "greedy"})", "topk_method is"}}) {
    const std::string text = warned(config);
    EXPECT_TRUE(text.starts_with("W-TRACE-KEY " + key)) << text;
    EXPECT_NE(text.find("transformers ignores"), std::string::npos);
  }
  MadeDecoder made = MadeDecoder::config("deepseek_v2", R"("norm_topk_prob": true,
      "num_experts_per_tok": 2, "topk_method": "greedy", "n_routed_experts": 4, )" +
                                                            kLatentKeys)
                         .ends()
                         .layer(kPlainNorms + kLatentAttention + kRouted);
  EXPECT_EQ(made.read().warnings.size(), 1U);
  const ModelRouters routers = model_routers(made.fixture->files());
  ASSERT_EQ(routers.warnings.size(), 1U);
  EXPECT_EQ(routers.warnings[0].id, "W-ROUTER-KEY");
}

TEST(TraceKeys, OfGgufTheKeysOfTheArchitecture) {
  MadeDecoder made = MadeDecoder::gguf("llama").ends().layer(kGgufLayer);
  made.number("vocab_size", 40).number("rope.dimension_count", 16).text("other", "x");
  made.real("attention.max_alibi_bias", 0.0);
  EXPECT_TRUE(made.read().warnings.size() == 1 &&
              made.read().warnings[0].text.find("them: llama.other;") != std::string::npos);
  made.real("embedding_scale", 3.0);
  const Transformer decoder = made.read();
  EXPECT_EQ(decoder.embedding_factor, 1.0);
  ASSERT_EQ(decoder.warnings.size(), 1U);
  EXPECT_NE(decoder.warnings[0].text.find("llama.embedding_scale"), std::string::npos);
}

// A key that a family does not have decides nothing.
TEST(TraceKeys, KeysOfOtherFamiliesAreNotUsed) {
  const Transformer decoder = MadeDecoder::config("llama", R"("embedding_multiplier": 3.0,
      "clip_qkv": 2.0, "scale_embedding": true, "residual_multiplier": 0.5, )")
                                  .ends()
                                  .layer(kPlainLayer)
                                  .read();
  EXPECT_EQ(decoder.embedding_factor, 1.0);
  EXPECT_EQ(decoder.residual_factor, 1.0);
  EXPECT_EQ(decoder.layers[0].attention.clip, 0.0);
  EXPECT_EQ(decoder.warnings.size(), 1U);
  EXPECT_EQ(
      MadeDecoder::config("llama", R"("is_causal": false, )").ends().layer(kPlainLayer).outcome(),
      "E-TRACE-KEY 78");
}

TEST(TraceKeys, BiasesThatNoKeyAsksForAreNamed) {
  const std::string biases =
      "self_attn.q_proj.bias 64 self_attn.k_proj.bias 32 self_attn.v_proj.bias 32 "
      "self_attn.o_proj.bias 32 mlp.gate_proj.bias 24 mlp.up_proj.bias 24 mlp.down_proj.bias 32";
  const auto said = [&](const std::string& type, const std::string& keys) {
    std::string text;
    const Transformer decoder =
        MadeDecoder::config(type, keys).ends().layer(kPlainLayer).layer(biases).read();
    for (const Warning& warning : decoder.warnings) {
      text += warning.id + " " + warning.text + "\n";
    }
    return text;
  };
  EXPECT_EQ(said("llama", R"("attention_bias": true, "mlp_bias": true, )"), "");
  const std::string all = said("llama", "");
  EXPECT_TRUE(all.starts_with("W-TRACE-BIAS")) << all;
  EXPECT_NE(all.find("queries, keys and values"), std::string::npos);
  EXPECT_NE(all.find("feed-forwards"), std::string::npos);
  EXPECT_EQ(said("qwen2", "").find("queries"), std::string::npos);
  const std::string mistral = said("mistral", R"("attention_bias": true, )");
  EXPECT_NE(mistral.find("W-TRACE-KEY attention_bias is true"), std::string::npos) << mistral;
}

TEST(TraceKeys, ThePageListsThem) {
  const std::string page = testing::file_text(VINDEX_SOURCE_DIR "/docs/models/trace-families.md");
  for (const Dialect dialect : {Dialect::kHuggingFace, Dialect::kGguf}) {
    for (const std::string& key : listed_keys(dialect)) {
      EXPECT_NE(page.find("`" + key + "`"), std::string::npos) << key;
    }
  }
}

}  // namespace
}  // namespace vindex::model::transformer_key_table_test
