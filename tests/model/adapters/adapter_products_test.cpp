// LoRA pairs: which factors make one, their scale, and what is told where they make none.
#include "tests/model/products/product_fixture.hpp"

#include <limits>

namespace vindex::model::adapter_products_test {
namespace {

using decode::ElementType;

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
  EXPECT_EQ(scale({}), 2.0);  // PEFT's own alpha of 8
  EXPECT_EQ(scale({member("use_rslora", true)}), 4.0);
  const auto pattern = [&](const char* text) {
    return scale({member("lora_alpha", 4.0),
                  member("alpha_pattern", JsonValue::Object{member(text, 16.0)})});
  };
  EXPECT_EQ(pattern("q_proj"), 4.0);
  EXPECT_EQ(pattern("model.layers.3.self_attn.q_proj"), 4.0);
  EXPECT_EQ(pattern("layers\\.[0-9]\\..*_proj"), 4.0);
  EXPECT_EQ(pattern("_proj"), 1.0);             // from a dot on
  EXPECT_EQ(pattern("self.attn.q_proj"), 4.0);  // a dot is any character
  EXPECT_EQ(pattern("3.self_attn.q_proj.x"), 1.0);
  EXPECT_EQ(scale({member("alpha_pattern", JsonValue::Object{member("q_proj", 16.0)})}), 4.0);
}

ModelIndex configured(JsonValue::Object members) {
  ModelFixture fixture = peft();
  adapter_config(fixture, std::move(members));
  return fixture.index({.lora = true});
}

TEST(AdapterProductsTest, WithoutAlphaPeftsOwnDefaultIsTold) {
  EXPECT_EQ(warning_ids(configured({})), std::vector<std::string>{"W-LORA-ALPHA"});
  ModelFixture bare = peft();
  bare.files().adapter.reset();
  const ModelIndex index = bare.index({.lora = true});
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LORA-ALPHA"});
  EXPECT_EQ(product_of(index, "model.layers.3.self_attn.q_proj.weight", -1).product->scale, 1.0);
  ModelFixture text = peft();
  adapter_config(text, {member("lora_alpha", std::string("8"))});
  EXPECT_EQ(refusal(text, {.lora = true}), "E-LORA-CONFIG");
}

// What cannot be read may be the pattern of any pair: no row gets a number that may be wrong.
TEST(AdapterProductsTest, PatternsThatCannotBeReadLeaveNoScale) {
  const auto why = [](const char* key, const std::string& pattern) {
    const ModelIndex index = configured(
        {member("lora_alpha", 4.0),
         member(key, JsonValue::Object{{pattern, JsonValue(JsonValue::Storage(16.0))}})});
    EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LORA-PATTERN"}) << pattern;
    return product_of(index, "model.layers.3.mlp.experts.5.up_proj.weight", -1).unsupported;
  };
  EXPECT_EQ(why("alpha_pattern", "("), "adapter_config.json: ( of alpha_pattern cannot be read");
  EXPECT_NE(why("alpha_pattern", "(?!layers\\.1\\.).*q_proj"), "");
  EXPECT_NE(why("alpha_pattern", "(?:" + std::string(300, 'a') + ")"), "");
  EXPECT_EQ(why("rank_pattern", "("), "");  // the factors themselves have the rank
}

// Each of these would take RE2 a megabyte and tens of milliseconds.
TEST(AdapterProductsTest, PatternsAreBounded) {
  JsonValue::Object patterns;
  for (int i = 0; i < 2000; ++i) {
    patterns.push_back(member(("(a|" + std::to_string(i) + ")").c_str(), 1.0));
  }
  const ModelIndex index =
      configured({member("lora_alpha", 4.0), member("alpha_pattern", JsonValue::Object(patterns))});
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-LORA-PATTERN"});
  patterns.clear();
  for (int i = 0; i < 2000; ++i) {
    patterns.push_back(member(("layers." + std::to_string(i) + ".self_attn.q_proj").c_str(), i));
  }
  EXPECT_EQ(product_of(configured({member("lora_alpha", 4.0),
                                   member("alpha_pattern", std::move(patterns))}),
                       "model.layers.3.self_attn.q_proj.weight", -1)
                .product->scale,
            0.75);
}

/// What MLX writes of an attention, an embedding and a stack of experts.
TEST(AdapterProductsTest, MlxPairsAreStoredTheOtherWayRound) {
  ModelFixture fixture;
  const std::string prefix = "model.layers.3.";
  fixture.bf16(prefix + "self_attn.q_proj.lora_a", {10, 4});
  fixture.bf16(prefix + "self_attn.q_proj.lora_b", {4, 24});
  fixture.bf16("model.embed_tokens.lora_a", {90, 4});
  fixture.bf16("model.embed_tokens.lora_b", {4, 10});
  fixture.bf16(prefix + "mlp.switch_mlp.up_proj.lora_a", {3, 2, 10});
  fixture.bf16(prefix + "mlp.switch_mlp.up_proj.lora_b", {3, 16, 2});
  fixture.bf16(prefix + "self_attn.k_proj.lora_a", {10, 4});
  fixture.bf16(prefix + "self_attn.k_proj.lora_b", {5, 24});
  adapter_config(fixture,
                 {member("fine_tune_type", std::string("lora")),
                  member("lora_parameters", JsonValue::Object{member("rank", std::uint64_t{4}),
                                                              member("scale", 20.0)})});
  EXPECT_EQ(warning_ids(fixture.index()), std::vector<std::string>{"W-LORA"});
  const ModelIndex index = fixture.index({.lora = true});
  EXPECT_TRUE(index.warnings.empty()) << index.warnings[0].text;
  const MatrixRecord& q = product_of(index, "model.layers.3.self_attn.q_proj.weight", -1);
  EXPECT_EQ(describe(q), "3/attention/q_proj/-1/-1 24x10");
  EXPECT_EQ(recipe(q), "lora_b[0:4,0:24]' lora_a[0:10,0:4]' = 24x10 rank 4");
  EXPECT_EQ(q.product->scale, 20.0);
  EXPECT_EQ(recipe(product_of(index, "model.embed_tokens.weight", -1)),
            "lora_a[0:90,0:4] lora_b[0:4,0:10] = 90x10 rank 4");
  EXPECT_EQ(recipe(product_of(index, "model.layers.3.mlp.switch_mlp.up_proj.weight", 2)),
            "lora_b#2[0:16,0:2] lora_a#2[0:2,0:10] = 16x10 rank 2");
  EXPECT_EQ(product_of(index, "model.layers.3.self_attn.k_proj.weight", -1).unsupported,
            "LoRA factors do not fit: A is [10, 4], B is [5, 24]");

  adapter_config(fixture, {member("fine_tune_type", std::string("dora"))});
  EXPECT_EQ(warning_ids(fixture.index({.lora = true})),
            (std::vector<std::string>{"W-LORA-ALPHA", "W-LORA-DORA"}));
}

TEST(AdapterProductsTest, OneFactorStoredTwiceIsRefused) {
  const std::string q = "base_model.model.model.layers.3.self_attn.q_proj.";
  for (const std::string& name : {q + "lora_A", q + "lora_A.default.weight",
                                  std::string("model.layers.3.self_attn.q_proj.lora_b")}) {
    ModelFixture fixture = peft();
    fixture.bf16(name, {4, 10});
    EXPECT_EQ(refusal(fixture, {.lora = true}), "E-LORA-DOUBLE") << name;
  }
  ModelFixture two = peft();
  two.bf16(q + "lora_A.other.weight", {4, 10});
  two.bf16(q + "lora_B.other.weight", {24, 4});
  EXPECT_EQ(
      product_of(two.index({.lora = true}), "model.layers.3.self_attn.q_proj.weight@other", -1)
          .unsupported,
      "");
}

TEST(AdapterProductsTest, BiasesAreNoFactors) {
  ModelFixture fixture = peft();
  const std::size_t rows = fixture.index({.lora = true}).matrices.size();
  fixture.bf16("base_model.model.model.layers.3.self_attn.q_proj.lora_B.default.bias", {24});
  fixture.bf16("base_model.model.model.layers.3.self_attn.q_proj.lora_B.bias", {24});
  EXPECT_EQ(fixture.index({.lora = true}).matrices.size(), rows);
}

// 8 MB of factors would become a million rows of two gigabytes.
TEST(AdapterProductsTest, MoreProductsThanAnyModelHasAreRefused) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  for (int i = 0; i < 5; ++i) {
    const std::string name = "blk." + std::to_string(i) + ".ffn_up_exps.weight.lora_";
    fixture.bf16(name + "a", {65'536, 1, 1});
    fixture.bf16(name + "b", {65'536, 1, 1});
  }
  EXPECT_EQ(refusal(fixture, {.lora = true}), "E-MODEL-PRODUCTS");
}

TEST(AdapterProductsTest, GgufPairsAndTheirTurnedEmbedding) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  fixture.text_key("general.type", "adapter");
  fixture.text_key("adapter.type", "lora");
  gguf::Key alpha;
  alpha.name = "adapter.lora.alpha";
  alpha.type = gguf::ValueType::kF32;
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
}  // namespace vindex::model::adapter_products_test
