// Products of a model: which windows of which matrices make a head or a LoRA pair, and what is told
// where they do not.
#include "model_fixture.hpp"

#include <vindex/model/product.hpp>
#include <vindex/model/selection.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace vindex::model {
namespace {

using decode::ElementType;

const MatrixRecord& product_of(const ModelIndex& index, const std::string& name,
                               std::int32_t slice) {
  const MatrixRecord* found = find_matrix(index, name, slice);
  if (found == nullptr || found->product == nullptr) {
    throw std::runtime_error("no product " + name);
  }
  return *found;
}

/// "q[8:12,0:10]' k[4:8,0:10] = 10x10 rank 4": the factors' last names and windows, ' where turned.
std::string recipe(const MatrixRecord& record) {
  std::string out;
  for (const ProductFactor& factor : record.product->factors) {
    std::string name = factor.matrix->tensor;
    if (name.ends_with(".weight")) {
      name.resize(name.size() - 7);
    }
    name.erase(0, name.rfind('.') + 1);
    out += fmt::format("{}{}[{}:{},{}:{}]{} ", name,
                       factor.matrix->slice < 0 ? "" : fmt::format("#{}", factor.matrix->slice),
                       factor.first_row, factor.first_row + factor.rows, factor.first_col,
                       factor.first_col + factor.cols, factor.turned ? "'" : "");
  }
  return out + fmt::format("= {}x{} rank {}", record.rows, record.cols, record.product->rank());
}

TEST(HeadProductsTest, GroupedHeadsShareKeysAndValues) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.config("num_attention_heads", 6);
  fixture.config("num_key_value_heads", 2);
  for (const std::string layer : {"0", "11"}) {
    const std::string prefix = "model.layers." + layer + ".self_attn.";
    fixture.bf16(prefix + "q_proj.weight", {24, 10});
    fixture.bf16(prefix + "k_proj.weight", {8, 10});
    fixture.bf16(prefix + "v_proj.weight", {6, 10});
    fixture.bf16(prefix + "o_proj.weight", {10, 18});
    fixture.bf16(prefix + "q_proj.bias", {24});
  }
  EXPECT_EQ(fixture.index().matrices.size(), 8U);
  const ModelIndex index = fixture.index({.heads = true});
  EXPECT_EQ(index.matrices.size(), 8U + 2 * 12);
  EXPECT_TRUE(index.warnings.empty());
  const MatrixRecord& qk = product_of(index, "model.layers.11.self_attn.qk", 4);
  EXPECT_EQ(recipe(qk), "q_proj[16:20,0:10]' k_proj[4:8,0:10] = 10x10 rank 4");
  EXPECT_EQ(describe(qk), "11/attention/qk_head/-1/4 10x10");
  EXPECT_EQ(qk.encoding.label, "BF16");
  EXPECT_EQ(recipe(product_of(index, "model.layers.0.self_attn.ov", 2)),
            "o_proj[0:10,6:9] v_proj[0:3,0:10] = 10x10 rank 3");
  // Rows of products come after all others, in the order of the results.
  EXPECT_EQ(index.matrices[8].role, "ov_head");
  EXPECT_EQ(index.matrices[8].slice, 0);
  EXPECT_EQ(select(index, parse_selection("11", "", "qk_head", "")).size(), 6U);
  EXPECT_EQ(select(index, parse_selection("", "", "", ".*self_attn\\.ov")).size(), 12U);
}

TEST(HeadProductsTest, FusedMatricesAreCut) {
  ModelFixture phi;
  phi.config("model_type", "phi3");
  phi.config("num_attention_heads", 6);
  phi.config("num_key_value_heads", 2);
  phi.bf16("model.layers.0.self_attn.qkv_proj.weight", {40, 10});
  phi.bf16("model.layers.0.self_attn.o_proj.weight", {10, 24});
  const ModelIndex index = phi.index({.heads = true});
  EXPECT_EQ(recipe(product_of(index, "model.layers.0.self_attn.qk", 5)),
            "qkv_proj[20:24,0:10]' qkv_proj[28:32,0:10] = 10x10 rank 4");
  EXPECT_EQ(recipe(product_of(index, "model.layers.0.self_attn.ov", 5)),
            "o_proj[0:10,20:24] qkv_proj[36:40,0:10] = 10x10 rank 4");

  ModelFixture neox;
  neox.config("model_type", "gpt_neox");
  neox.config("num_attention_heads", 3);
  neox.bf16("gpt_neox.layers.0.attention.query_key_value.weight", {36, 12});
  neox.bf16("gpt_neox.layers.0.attention.dense.weight", {12, 12});
  const ModelIndex other = neox.index({.heads = true});
  EXPECT_EQ(recipe(product_of(other, "gpt_neox.layers.0.attention.qk", 2)),
            "query_key_value[24:28,0:12]' query_key_value[28:32,0:12] = 12x12 rank 4");
  EXPECT_EQ(recipe(product_of(other, "gpt_neox.layers.0.attention.ov", 1)),
            "dense[0:12,4:8] query_key_value[20:24,0:12] = 12x12 rank 4");
}

TEST(HeadProductsTest, LatentAttentionGoesThroughItsLatents) {
  ModelFixture hf;
  hf.config("model_type", "deepseek_v3");
  hf.config("num_attention_heads", 4);
  const std::string prefix = "model.layers.2.self_attn.";
  hf.bf16(prefix + "q_a_proj.weight", {12, 20});
  hf.bf16(prefix + "q_b_proj.weight", {4 * 5, 12});  // 3 + 2 rotated
  hf.bf16(prefix + "kv_a_proj_with_mqa.weight", {8 + 2, 20});
  hf.bf16(prefix + "kv_b_proj.weight", {4 * 7, 8});  // 3 of keys, 4 of values
  hf.bf16(prefix + "o_proj.weight", {20, 16});
  hf.bf16(prefix + "q_a_layernorm.weight", {12});
  const ModelIndex index = hf.index({.heads = true});
  EXPECT_EQ(recipe(product_of(index, "model.layers.2.self_attn.qk", 3)),
            "q_a_proj[0:12,0:20]' q_b_proj[15:18,0:12]' kv_b_proj[21:24,0:8] "
            "kv_a_proj_with_mqa[0:8,0:20] = 20x20 rank 3");
  EXPECT_EQ(recipe(product_of(index, "model.layers.2.self_attn.ov", 1)),
            "o_proj[0:20,4:8] kv_b_proj[10:14,0:8] kv_a_proj_with_mqa[0:8,0:20] = 20x20 rank 4");

  ModelFixture gguf = ModelFixture::gguf("deepseek2");
  gguf.bf16("blk.2.attn_q_a.weight", {12, 20});
  gguf.bf16("blk.2.attn_q_b.weight", {4 * 5, 12});
  gguf.bf16("blk.2.attn_kv_a_mqa.weight", {8 + 2, 20});
  gguf.bf16("blk.2.attn_k_b.weight", {4, 8, 3});
  gguf.bf16("blk.2.attn_v_b.weight", {4, 4, 8});
  gguf.bf16("blk.2.attn_output.weight", {20, 16});
  const ModelIndex stacks = gguf.index({.heads = true});
  EXPECT_EQ(recipe(product_of(stacks, "blk.2.attn_qk", 3)),
            "attn_q_a[0:12,0:20]' attn_q_b[15:18,0:12]' attn_k_b#3[0:8,0:3]' "
            "attn_kv_a_mqa[0:8,0:20] = 20x20 rank 3");
  EXPECT_EQ(recipe(product_of(stacks, "blk.2.attn_ov", 1)),
            "attn_output[0:20,4:8] attn_v_b#1[0:4,0:8] attn_kv_a_mqa[0:8,0:20] = 20x20 rank 4");
}

std::string refusal(ModelFixture& fixture, const IndexOptions& options) {
  try {
    fixture.index(options);
  } catch (const Error& error) {
    return error.id();
  }
  return "none";
}

TEST(HeadProductsTest, CountsThatDoNotFitAreTold) {
  for (const std::uint64_t heads : {std::uint64_t{7}, std::uint64_t{0}, std::uint64_t{1} << 40U}) {
    ModelFixture fixture;
    fixture.config("model_type", "llama");
    fixture.config("num_attention_heads", heads);
    fixture.bf16("model.layers.0.self_attn.q_proj.weight", {24, 10});
    fixture.bf16("model.layers.0.self_attn.k_proj.weight", {24, 10});
    EXPECT_EQ(refusal(fixture, {.heads = true}), "E-HEADS") << heads;
  }
  ModelFixture none;
  none.bf16("stem.weight", {24, 10});
  EXPECT_EQ(refusal(none, {.heads = true}), "E-HEADS");

  ModelFixture partly;
  partly.config("model_type", "llama");
  partly.config("num_attention_heads", 4);
  partly.bf16("model.layers.0.self_attn.q_proj.weight", {24, 10});
  partly.bf16("model.layers.0.self_attn.k_proj.weight", {24, 10});
  partly.bf16("model.layers.0.self_attn.v_proj.weight", {24, 10});
  partly.bf16("model.layers.0.self_attn.o_proj.weight", {10, 25});
  const ModelIndex index = partly.index({.heads = true});
  EXPECT_EQ(index.matrices.size(), 4U + 4);
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-HEADS"});
}

/// A PEFT adapter of one attention and one expert.
ModelFixture peft() {
  ModelFixture fixture;
  fixture.files().adapter = JsonValue(JsonValue::Object{});
  const std::string prefix = "base_model.model.model.layers.3.";
  fixture.bf16(prefix + "self_attn.q_proj.lora_A.weight", {4, 10});
  fixture.bf16(prefix + "self_attn.q_proj.lora_B.weight", {24, 4});
  fixture.bf16(prefix + "mlp.experts.5.up_proj.lora_A.default.weight", {2, 10});
  fixture.bf16(prefix + "mlp.experts.5.up_proj.lora_B.default.weight", {16, 2});
  return fixture;
}

void adapter_config(ModelFixture& fixture, JsonValue::Object members) {
  fixture.files().adapter = JsonValue(std::move(members));
}
std::pair<std::string, JsonValue> member(const char* name, JsonValue::Storage value) {
  return {name, JsonValue(std::move(value))};
}

TEST(AdapterProductsTest, PairsStandForTheWeightTheyAdapt) {
  ModelFixture fixture = peft();
  adapter_config(fixture,
                 {member("r", std::uint64_t{4}), member("lora_alpha", std::uint64_t{8}),
                  member("rank_pattern", JsonValue::Object{member("up_proj", std::uint64_t{2})})});
  fixture.bf16("base_model.model.model.embed_tokens.lora_embedding_A", {4, 90});
  fixture.bf16("base_model.model.model.embed_tokens.lora_embedding_B", {10, 4});
  fixture.bf16("base_model.model.lm_head.weight", {90, 10});
  const ModelIndex index = fixture.index({.lora = true});
  const MatrixRecord& q = product_of(index, "model.layers.3.self_attn.q_proj.weight", -1);
  EXPECT_EQ(describe(q), "3/attention/q_proj/-1/-1 24x10");
  EXPECT_EQ(recipe(q), "lora_B[0:24,0:4] lora_A[0:4,0:10] = 24x10 rank 4");
  EXPECT_EQ(q.product->scale, 2.0);
  const MatrixRecord& up = product_of(index, "model.layers.3.mlp.experts.5.up_proj.weight", -1);
  EXPECT_EQ(describe(up), "3/routed_expert/up_proj/5/-1 16x10");
  EXPECT_EQ(up.product->scale, 4.0);
  const MatrixRecord& embedding = product_of(index, "model.embed_tokens.weight", -1);
  EXPECT_EQ(recipe(embedding),
            "lora_embedding_A[0:4,0:90]' lora_embedding_B[0:10,0:4]' = 90x10 rank 4");
  EXPECT_EQ(embedding.block, Block::kEmbedding);
  EXPECT_TRUE(index.warnings.empty()) << index.warnings[0].text;
}

TEST(AdapterProductsTest, ScaleFollowsTheConfiguration) {
  const auto scale = [](JsonValue::Object members) {
    ModelFixture fixture = peft();
    adapter_config(fixture, std::move(members));
    const ModelIndex index = fixture.index({.lora = true});
    return product_of(index, "model.layers.3.self_attn.q_proj.weight", -1).product->scale;
  };
  EXPECT_EQ(scale({member("lora_alpha", 6.0)}), 1.5);
  EXPECT_EQ(scale({member("lora_alpha", 6.0), member("use_rslora", true)}), 3.0);
  EXPECT_EQ(scale({}), 1.0);
  const auto pattern = [&](const char* text) {
    return scale({member("lora_alpha", 4.0),
                  member("alpha_pattern", JsonValue::Object{member(text, 16.0)})});
  };
  EXPECT_EQ(pattern("q_proj"), 4.0);
  EXPECT_EQ(pattern("model.layers.3.self_attn.q_proj"), 4.0);
  EXPECT_EQ(pattern("layers\\.[0-9]\\..*_proj"), 4.0);
  EXPECT_EQ(pattern("_proj"), 1.0);  // from a dot on
  EXPECT_EQ(pattern("("), 1.0);
}

TEST(AdapterProductsTest, GgufPairsAndTheirTurnedEmbedding) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  fixture.text_key("general.type", "adapter");
  fixture.text_key("adapter.type", "lora");
  shard::GgufKey alpha;
  alpha.name = "adapter.lora.alpha";
  alpha.type = shard::GgufType::kF32;
  alpha.value = 8.0;
  fixture.files().keys.push_back(alpha);
  fixture.bf16("blk.1.attn_q.weight.lora_a", {4, 10});
  fixture.bf16("blk.1.attn_q.weight.lora_b", {24, 4});
  fixture.bf16("blk.1.ffn_up_exps.weight.lora_a", {3, 2, 10});
  fixture.bf16("blk.1.ffn_up_exps.weight.lora_b", {3, 16, 2});
  fixture.bf16("token_embd.weight.lora_a", {90, 4});
  fixture.bf16("token_embd.weight.lora_b", {10, 4});
  EXPECT_EQ(refusal(fixture, {}), "E-MODEL-TYPE");
  const ModelIndex index = fixture.index({.lora = true});
  const MatrixRecord& q = product_of(index, "blk.1.attn_q.weight", -1);
  EXPECT_EQ(describe(q), "1/attention/q_proj/-1/-1 24x10");
  EXPECT_EQ(q.product->scale, 2.0);
  const MatrixRecord& expert = product_of(index, "blk.1.ffn_up_exps.weight", 2);
  EXPECT_EQ(describe(expert), "1/routed_expert/up_proj/2/2 16x10");
  EXPECT_EQ(expert.product->scale, 4.0);
  const TensorPart& part = expert.product->factors[0].matrix->codes;
  EXPECT_EQ(part.bytes, 2U * 16 * 2);
  EXPECT_EQ(part.offset, fixture.files().tensors[3].offset + 2 * part.bytes);
  EXPECT_EQ(recipe(product_of(index, "token_embd.weight", -1)),
            "lora_a[0:90,0:4] lora_b[0:10,0:4]' = 90x10 rank 4");

  fixture.files().keys.back().value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(refusal(fixture, {.lora = true}), "E-LORA-ALPHA");
  fixture.files().keys.back().value = 0.0;  // llama.cpp takes no alpha for alpha = r
  EXPECT_EQ(product_of(fixture.index({.lora = true}), "blk.1.attn_q.weight", -1).product->scale,
            1.0);
}

TEST(AdapterProductsTest, PairsThatAreNoneAreUnsupportedRows) {
  ModelFixture fixture = peft();
  adapter_config(fixture, {member("lora_alpha", 8.0)});
  fixture.bf16("base_model.model.a.lora_A.weight", {4, 10});
  fixture.bf16("base_model.model.b.lora_A.weight", {4, 10});
  fixture.bf16("base_model.model.b.lora_B.weight", {24, 5});
  fixture.bf16("base_model.model.c.lora_A.weight", {0, 10});
  fixture.bf16("base_model.model.c.lora_B.weight", {24, 0});
  fixture.bf16("base_model.model.d.lora_A.weight", {4, 10, 3, 3});
  fixture.bf16("base_model.model.d.lora_B.weight", {24, 4, 1, 1});
  fixture.add("base_model.model.e.lora_magnitude_vector", ElementType::kF32, {24});
  const ModelIndex index = fixture.index({.lora = true});
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LORA-DORA"});
  const auto why = [&](const std::string& name) { return product_of(index, name, -1).unsupported; };
  EXPECT_EQ(why("a.weight"), "LoRA factor B is missing");
  EXPECT_EQ(why("b.weight"), "LoRA factors do not fit: A is [4, 10], B is [24, 5]");
  EXPECT_EQ(why("c.weight"), "LoRA factor A is empty");
  EXPECT_EQ(why("d.weight"), "LoRA factor A has 4 sides");
  EXPECT_EQ(why("model.layers.3.self_attn.q_proj.weight"), "");
}

TEST(AdapterProductsTest, WhatIsNoLoraIsRefused) {
  ModelFixture other = peft();
  adapter_config(other, {member("peft_type", std::string("LOHA"))});
  EXPECT_EQ(refusal(other, {.lora = true}), "E-LORA-TYPE");
  ModelFixture plain;
  plain.bf16("model.layers.0.self_attn.q_proj.weight", {24, 10});
  EXPECT_EQ(refusal(plain, {.lora = true}), "E-LORA");
  ModelFixture contradicts = peft();
  adapter_config(contradicts, {member("r", std::uint64_t{16}), member("lora_alpha", 8.0)});
  const ModelIndex index = contradicts.index({.lora = true});
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LORA-RANK"});
  EXPECT_EQ(product_of(index, "model.layers.3.self_attn.q_proj.weight", -1).product->scale, 2.0);
}

}  // namespace
}  // namespace vindex::model
