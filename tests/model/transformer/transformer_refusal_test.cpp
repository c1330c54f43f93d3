// What of a model is refused by name before anything is computed: families, keys, tensors that are
// absent, misshapen or left over; and hostile numbers.
#include "transformer_fixture.hpp"

#include <limits>

namespace vindex::model::transformer_refusal_test {
namespace {

MadeDecoder plain(const std::string& keys = "", std::int64_t layers = 2) {
  return MadeDecoder::config("llama", keys, layers).ends().layer(kPlainLayer);
}

/// A llama of one layer with `tensors`.
MadeDecoder of(const std::string& tensors, const std::string& keys = "") {
  return MadeDecoder::config("llama", keys, 1).ends().layer(tensors);
}

void expect_refusal(MadeDecoder made, const std::string& outcome, const std::string& named) {
  SCOPED_TRACE(named);
  EXPECT_EQ(made.outcome(), outcome);
  EXPECT_NE(made.message().find(named), std::string::npos) << made.message();
}
void expect_tensor(const MadeDecoder& made, const std::string& named) {
  expect_refusal(made, "E-TRACE-TENSOR 65", named);
}
void expect_key(const MadeDecoder& made, const std::string& named) {
  expect_refusal(made, "E-TRACE-KEY 78", named);
}

TEST(TransformerRefusals, FamiliesThatAreNotInTheTable) {
  MadeDecoder made = MadeDecoder::config("mamba2").ends();
  expect_refusal(made, "E-TRACE-FAMILY 78", "mamba2");
  for (const char* known : {"deepseek_v3", "gemma3_text", "qwen3_moe"}) {
    EXPECT_NE(made.message().find(known), std::string::npos);
  }
  made.fixture->files().config = parse_json("{}", "config.json", {});
  EXPECT_EQ(made.outcome(), "E-TRACE-FAMILY 78");
  made.fixture->files().config.reset();
  EXPECT_EQ(made.outcome(), "E-TRACE-FAMILY 78");
}

TEST(TransformerRefusals, TensorsThatAreAbsent) {
  const std::string words = kPlainLayer;
  const std::vector<std::string_view> parts = split(words, ' ');
  for (std::size_t leave = 0; leave + 1 < parts.size(); leave += 2) {
    std::string rest;
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
      if (i != leave) {
        rest += std::string(parts[i]) + ' ' + std::string(parts[i + 1]) + ' ';
      }
    }
    SCOPED_TRACE(std::string(parts[leave]));
    EXPECT_EQ(of(rest).outcome(), "E-TRACE-TENSOR 65");
  }
  expect_tensor(MadeDecoder::config("llama").layer(kPlainLayer), "embed_tokens");
  expect_tensor(MadeDecoder::config("llama", R"("tie_word_embeddings": false, )")
                    .add("", "model.embed_tokens 40x32 model.norm 32")
                    .layer(kPlainLayer),
                "lm_head");
  expect_tensor(plain(R"("num_hidden_layers": 3, )"), "layer 2");
  expect_tensor(plain(R"("attention_bias": true, )"), "q_proj");
}

TEST(TransformerRefusals, TensorsOfAnotherShape) {
  const auto changed = [](const std::string& name, const std::string& shape) {
    std::string words = kPlainLayer;
    const std::size_t at = words.find(name);
    const std::size_t begin = words.find(' ', at) + 1;
    words.replace(begin, words.find(' ', begin) - begin, shape);
    return of(words);
  };
  for (const auto& [name, shape] :
       std::vector<std::pair<std::string, std::string>>{{"input_layernorm", "31"},
                                                        {"input_layernorm", "2x16"},
                                                        {"self_attn.q_proj", "64x31"},
                                                        {"self_attn.q_proj", "63x32"},
                                                        {"self_attn.k_proj", "48x32"},
                                                        {"self_attn.v_proj", "33x32"},
                                                        {"self_attn.o_proj", "32x63"},
                                                        {"self_attn.o_proj", "31x64"},
                                                        {"mlp.gate_proj", "24x16"},
                                                        {"mlp.up_proj", "23x32"},
                                                        {"mlp.down_proj", "32x23"},
                                                        {"mlp.down_proj", "31x24"}}) {
    SCOPED_TRACE(name + " " + shape);
    EXPECT_EQ(changed(name, shape).outcome(), "E-TRACE-TENSOR 65");
  }
  expect_tensor(of(kPlainLayer + "self_attn.q_proj.bias 63"), "q_proj.bias");
  expect_tensor(MadeDecoder::config("llama", "", 1)
                    .add("", "model.embed_tokens 40x32 model.norm 32 lm_head 41x32")
                    .layer(kPlainLayer),
                "lm_head");
}

TEST(TransformerRefusals, KeysThatTheShapesDeny) {
  expect_tensor(plain(R"("hidden_size": 31, )"), "embed_tokens");
  expect_tensor(plain(R"("head_dim": 8, )"), "q_proj");
  expect_tensor(plain(R"("num_attention_heads": 7, )"), "q_proj");
  expect_tensor(plain(R"("num_key_value_heads": 4, )"), "k_proj");
}

TEST(TransformerRefusals, WhatNothingTakes) {
  expect_tensor(of(kPlainLayer + "self_attn.q_norm 16"), "q_norm");
  expect_tensor(of(kPlainLayer + "self_attn.sinks 4"), "sinks");
  expect_tensor(of(kPlainLayer + "input_layernorm.bias 32"), "input_layernorm.bias");
  expect_tensor(of(kPlainLayer + "self_attn.g_proj 64x32"), "g_proj");
  expect_tensor(MadeDecoder::config("mixtral", R"("num_experts_per_tok": 1, )", 1)
                    .ends()
                    .layer(kPlainLayer + kRouted),
                "mlp.");
  expect_tensor(plain("", 2).layer(kPlainLayer, 2, 3), "layer 2");
  EXPECT_EQ(of(kPlainLayer + "self_attn.rotary_emb.inv_freq 8").outcome(), "");
}

TEST(TransformerRefusals, ExpertsThatDoNotFitTheirRouter) {
  const auto made = [](const std::string& tensors, const std::string& keys) {
    return MadeDecoder::config("qwen3_moe", keys, 1)
        .ends()
        .layer(kPlainNorms + kPlainAttention + "self_attn.q_norm 16 self_attn.k_norm 16 " +
               tensors);
  };
  const std::string two = R"("num_experts_per_tok": 2, )";
  EXPECT_EQ(made(kRouted, two).outcome(), "");
  expect_key(made(kRouted, R"("num_experts_per_tok": 5, )"), "5");
  expect_tensor(made(kRouted, two + R"("num_experts": 8, )"), "8");
  expect_tensor(made("mlp.gate 5x32 mlp.experts.gate_up_proj 4x28x32 "
                     "mlp.experts.down_proj 4x32x14",
                     two),
                "expert 4");
  expect_tensor(made("mlp.gate 2x32 mlp.experts.0.gate_proj 14x32 mlp.experts.0.up_proj 14x32 "
                     "mlp.experts.0.down_proj 32x14 mlp.experts.1.gate_proj 12x32 "
                     "mlp.experts.1.up_proj 12x32 mlp.experts.1.down_proj 32x12",
                     two),
                "neurons");
  EXPECT_EQ(made(kRouted, "").outcome(), "E-ROUTER-KEY 78");
  EXPECT_EQ(made(kRouted, "").message().find("--model"), std::string::npos);
}

TEST(TransformerRefusals, GroupsThatCannotHoldWhatATokenChooses) {
  const auto made = [](const std::string& groups) {
    return MadeDecoder::config("deepseek_v3",
                               kLatentKeys + R"("num_experts_per_tok": 2, )" + groups, 1)
        .ends()
        .layer(kPlainNorms + kLatentAttention + kRouted + "mlp.gate.e_score_correction_bias 4");
  };
  EXPECT_EQ(made(R"("n_group": 2, "topk_group": 1, )").outcome(), "");
  expect_key(made(R"("n_group": 3, "topk_group": 1, )"), "groups");
  expect_key(made(R"("n_group": 4, "topk_group": 1, )"), "groups");
  expect_key(made(R"("n_group": 2, "topk_group": 3, )"), "groups");
}

TEST(TransformerRefusals, HostileKeys) {
  for (const char* keys : {
           R"("num_hidden_layers": 0, )",
           R"("num_hidden_layers": -1, )",
           R"("num_hidden_layers": 18446744073709551615, )",
           R"("num_hidden_layers": 2.5, )",
           R"("num_hidden_layers": "2", )",
           R"("num_attention_heads": 0, )",
           R"("num_attention_heads": -4, )",
           R"("num_attention_heads": 9223372036854775807, )",
           R"("num_attention_heads": [4, 2], )",
           R"("num_key_value_heads": 0, )",
           R"("head_dim": 0, )",
           R"("head_dim": -16, )",
           R"("hidden_size": 0, )",
           R"("hidden_size": 4294967296, )",
           R"("rms_norm_eps": -1e-6, )",
           R"("rms_norm_eps": 0, )",
           R"("rms_norm_eps": "small", )",
           R"("rope_theta": 0, )",
           R"("rope_theta": true, )",
           R"("max_position_embeddings": 0, )",
           R"("hidden_act": "swoosh", )",
           R"("hidden_act": 3, )",
           R"("num_nextn_predict_layers": -1, )",
       }) {
    SCOPED_TRACE(keys);
    EXPECT_EQ(plain(keys).outcome(), "E-TRACE-KEY 78");
  }
  // As many layers as can be asked for: the first that is absent ends it.
  EXPECT_EQ(plain(R"("num_hidden_layers": 1073741824, )").outcome(), "E-TRACE-TENSOR 65");
  EXPECT_EQ(plain(R"("num_attention_heads": 1073741824, )").outcome(), "E-TRACE-TENSOR 65");
}

TEST(TransformerRefusals, HostileKeysOfLatentAttention) {
  const auto made = [](const std::string& keys) {
    return MadeDecoder::config("deepseek_v3", keys + kLatentKeys, 1)
        .ends()
        .layer(kPlainNorms + kLatentAttention + kPlainDense);
  };
  EXPECT_EQ(made("").outcome(), "");
  const auto with = [](std::string keys, const std::string& key, const std::string& value) {
    const std::size_t at = keys.find('"' + key + '"');
    const std::size_t begin = keys.find(':', at) + 1;
    return keys.replace(begin, keys.find(',', begin) - begin, " " + value);
  };
  const auto outcome = [&](const std::string& key, const std::string& value) {
    return MadeDecoder::config("deepseek_v3", with(kLatentKeys, key, value), 1)
        .ends()
        .layer(kPlainNorms + kLatentAttention + kPlainDense)
        .outcome();
  };
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    SCOPED_TRACE(key);
    EXPECT_EQ(outcome(key, "0"), "E-TRACE-KEY 78");
    EXPECT_EQ(outcome(key, "null"), "E-TRACE-KEY 78");
    EXPECT_EQ(outcome(key, "1073741824"), "E-TRACE-TENSOR 65");
    EXPECT_EQ(outcome(key, "9223372036854775808"), "E-TRACE-KEY 78");
  }
  EXPECT_EQ(outcome("qk_rope_head_dim", "7"), "E-TRACE-KEY 78");
}

TEST(TransformerRefusals, HostileNumbersOfGguf) {
  const auto with = [](const std::string& key, double value) {
    return MadeDecoder::gguf("llama").ends().layer(kGgufLayer).real(key, value).outcome();
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(with("rope.freq_base", nan), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.freq_base", infinity), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.freq_base", -1.0), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.scaling.factor", nan), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.scaling.factor", -2.0), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.scaling.factor", 1e-320), "E-TRACE-KEY 78");
  EXPECT_EQ(with("rope.scaling.factor", 0.0), "");
}

TEST(TransformerRefusals, VectorsAreReadWithinTheirTensors) {
  ModelFixture fixture;
  const std::int32_t f32 = fixture.add("f32", decode::ElementType::kF32, {2, 3});
  const std::int32_t ints = fixture.add("ints", decode::ElementType::kI32, {4});
  std::vector<std::byte> bytes(1000 + 24 + 16);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  std::memcpy(bytes.data() + 1000, values.data(), 24);
  fixture.bytes(bytes);
  const auto read = [&](const VectorRef& ref) { return read_vector(fixture.files(), ref); };
  EXPECT_EQ(read({.tensor = f32, .count = 6}), values);
  EXPECT_EQ(read({.tensor = f32, .first = 1, .step = 2, .count = 3}),
            (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(read({.tensor = f32, .first = 6, .count = 0}), std::vector<float>());
  const auto outcome = [&](const VectorRef& ref) {
    return testing::outcome_of([&] { read(ref); });
  };
  EXPECT_EQ(outcome({.tensor = f32, .count = 7}), "E-TRACE-TENSOR 65");
  EXPECT_EQ(outcome({.tensor = f32, .first = 2, .step = 2, .count = 3}), "E-TRACE-TENSOR 65");
  EXPECT_EQ(outcome({.tensor = f32, .first = 0, .step = std::int64_t{1} << 62, .count = 5}),
            "E-TRACE-TENSOR 65");
  EXPECT_EQ(outcome({.tensor = ints, .count = 4}), "E-TRACE-TENSOR 65");
}

}  // namespace
}  // namespace vindex::model::transformer_refusal_test
