// Heads of attention: which windows of which matrices make one, and what is told where they do not.
#include "product_fixture.hpp"

#include "model/selection/selection.hpp"

#include <array>
#include <set>

namespace vindex::model::head_products_test {
namespace {

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

/// Rows of q, k and v, and columns of o, of a model 10 wide.
void add_attention(ModelFixture& fixture, const std::string& prefix,
                   const std::array<std::int64_t, 4>& sides) {
  fixture.bf16(prefix + "q_proj.weight", {sides[0], 10});
  fixture.bf16(prefix + "k_proj.weight", {sides[1], 10});
  fixture.bf16(prefix + "v_proj.weight", {sides[2], 10});
  fixture.bf16(prefix + "o_proj.weight", {10, sides[3]});
}

std::vector<std::int32_t> layers_of_heads(const ModelIndex& index) {
  std::set<std::int32_t> layers;
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.product != nullptr) {
      layers.insert(matrix.layer);
    }
  }
  return {layers.begin(), layers.end()};
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
  add_attention(partly, "model.layers.0.self_attn.", {24, 24, 24, 24});
  add_attention(partly, "model.layers.1.self_attn.", {24, 24, 24, 25});
  const ModelIndex index = partly.index({.heads = true});
  EXPECT_EQ(layers_of_heads(index), std::vector<std::int32_t>{0});
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-HEADS"});
}

// Rows that o_proj contradicts are rows of no head: none of them is written.
TEST(HeadProductsTest, OutputsThatContradictTheCutLeaveNoRows) {
  ModelFixture separate;
  separate.config("model_type", "llama");
  separate.config("num_attention_heads", 2);  // of four
  add_attention(separate, "model.layers.0.self_attn.", {24, 24, 12, 24});
  EXPECT_EQ(refusal(separate, {.heads = true}), "E-HEADS");
  ModelFixture fused;
  fused.config("model_type", "phi3");
  fused.config("num_attention_heads", 6);
  fused.config("num_key_value_heads", 6);  // 2: the rows divide by 18 too
  fused.bf16("model.layers.0.self_attn.qkv_proj.weight", {90, 10});
  fused.bf16("model.layers.0.self_attn.o_proj.weight", {10, 54});
  EXPECT_EQ(refusal(fused, {.heads = true}), "E-HEADS");
  fused.config("num_key_value_heads", 2);
  EXPECT_EQ(refusal(fused, {.heads = true}), "none");
}

TEST(HeadProductsTest, CountsWithinTheAttentionsOwnSectionAreRead) {
  ModelFixture dbrx;
  dbrx.config("model_type", "dbrx");
  dbrx.config("n_heads", 6);
  dbrx.config("attn_config.kv_n_heads", 2);
  dbrx.bf16("transformer.blocks.0.norm_attn_norm.attn.Wqkv.weight", {40, 10});
  dbrx.bf16("transformer.blocks.0.norm_attn_norm.attn.out_proj.weight", {10, 24});
  EXPECT_EQ(recipe(product_of(dbrx.index({.heads = true}),
                              "transformer.blocks.0.norm_attn_norm.attn.ov", 5)),
            "out_proj[0:10,20:24] Wqkv[36:40,0:10] = 10x10 rank 4");
  dbrx.config("attn_config.kv_n_heads", 3);
  EXPECT_EQ(refusal(dbrx, {.heads = true}), "E-HEADS");
}

// One number per layer: the shapes say which.
TEST(HeadProductsTest, CountsGivenAsArraysFollowFromTheShapes) {
  ModelFixture lfm2 = ModelFixture::gguf("lfm2");
  lfm2.number_key("lfm2.attention.head_count", 4);
  gguf::Key counts;
  counts.name = "lfm2.attention.head_count_kv";
  counts.type = gguf::ValueType::kArray;
  counts.integers = {0, 2, 1};
  lfm2.files().keys.push_back(counts);
  for (const auto& [layer, keys] : {std::pair{1, 12}, std::pair{2, 6}}) {
    const std::string prefix = "blk." + std::to_string(layer) + ".attn_";
    lfm2.bf16(prefix + "q.weight", {24, 10});
    lfm2.bf16(prefix + "k.weight", {keys, 10});
    lfm2.bf16(prefix + "v.weight", {keys, 10});
    lfm2.bf16(prefix + "output.weight", {10, 24});
  }
  const ModelIndex index = lfm2.index({.heads = true});
  EXPECT_TRUE(index.warnings.empty()) << index.warnings[0].text;
  EXPECT_EQ(recipe(product_of(index, "blk.1.attn_qk", 3)),
            "attn_q[18:24,0:10]' attn_k[6:12,0:10] = 10x10 rank 6");
  EXPECT_EQ(recipe(product_of(index, "blk.2.attn_ov", 3)),
            "attn_output[0:10,18:24] attn_v[0:6,0:10] = 10x10 rank 6");
}

// Layers that see everything have wider heads, fewer keys, and no values of their own.
TEST(HeadProductsTest, KeysServeAsValuesInGemma4) {
  ModelFixture gemma;
  gemma.config("model_type", "gemma4");
  gemma.config("text_config.model_type", "gemma4_text");
  gemma.config("text_config.num_attention_heads", 4);
  gemma.config("text_config.num_key_value_heads", 2);
  gemma.config("text_config.num_global_key_value_heads", 1);
  add_attention(gemma, "model.layers.0.self_attn.", {16, 8, 8, 16});
  const std::string global = "model.layers.1.self_attn.";
  gemma.bf16(global + "q_proj.weight", {32, 10});
  gemma.bf16(global + "k_proj.weight", {8, 10});
  gemma.bf16(global + "o_proj.weight", {10, 32});
  const ModelIndex index = gemma.index({.heads = true});
  EXPECT_TRUE(index.warnings.empty()) << index.warnings[0].text;
  EXPECT_EQ(recipe(product_of(index, "model.layers.1.self_attn.ov", 3)),
            "o_proj[0:10,24:32] k_proj[0:8,0:10] = 10x10 rank 8");
}

TEST(HeadProductsTest, ValuesOfAnotherLayerAreTold) {
  ModelFixture shared;
  shared.config("model_type", "llama");
  shared.config("num_attention_heads", 4);
  shared.bf16("model.layers.1.self_attn.q_proj.weight", {16, 10});
  shared.bf16("model.layers.1.self_attn.k_proj.weight", {16, 10});
  shared.bf16("model.layers.1.self_attn.o_proj.weight", {10, 16});
  const ModelIndex index = shared.index({.heads = true});
  EXPECT_EQ(index.matrices.size(), 3U + 4);
  EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-HEADS"});
}

// Softmax-free layers of hybrids have matrices of the same names.
TEST(HeadProductsTest, LinearAttentionHasNoHeads) {
  ModelFixture kimi;
  kimi.config("model_type", "kimi_linear");
  kimi.config("num_attention_heads", 4);
  ModelFixture gguf = ModelFixture::gguf("kimi-linear");
  gguf.number_key("kimi-linear.attention.head_count", 4);
  ModelFixture minimax;
  minimax.config("model_type", "minimax");
  minimax.config("num_attention_heads", 4);
  for (const std::string layer : {"0", "1"}) {
    add_attention(kimi, "model.layers." + layer + ".self_attn.", {24, 24, 24, 24});
    for (const char* name : {"q", "k", "v", "output"}) {
      gguf.bf16("blk." + layer + ".attn_" + name + ".weight", {24, 24});
    }
  }
  kimi.bf16("model.layers.0.self_attn.f_a_proj.weight", {6, 10});
  kimi.bf16("model.layers.0.self_attn.f_b_proj.weight", {24, 6});
  gguf.bf16("blk.0.ssm_f_a.weight", {6, 24});
  const std::string lightning = "model.layers.0.self_attn.";
  minimax.bf16(lightning + "qkv_proj.weight", {72, 10});
  minimax.bf16(lightning + "output_gate.weight", {24, 10});
  minimax.bf16(lightning + "out_proj.weight", {10, 24});
  add_attention(minimax, "model.layers.1.self_attn.", {24, 24, 24, 24});
  for (ModelFixture* fixture : {&kimi, &gguf, &minimax}) {
    const ModelIndex index = fixture->index({.heads = true});
    EXPECT_EQ(layers_of_heads(index), std::vector<std::int32_t>{1});
    ASSERT_EQ(warning_ids(index), std::vector<std::string>{"W-HEADS"});
    EXPECT_NE(index.warnings[0].text.find("linear attention"), std::string::npos);
  }
}

// An attention of which nothing is known is told; an indexer within one is none.
TEST(HeadProductsTest, UnknownLayoutsAreTold) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.config("num_attention_heads", 4);
  add_attention(fixture, "model.layers.0.self_attn.", {24, 24, 24, 24});
  fixture.bf16("model.layers.0.self_attn.indexer.wq_b.weight", {24, 10});
  EXPECT_TRUE(fixture.index({.heads = true}).warnings.empty());
  fixture.bf16("model.layers.1.self_attn.mystery_proj.weight", {24, 10});
  EXPECT_EQ(warning_ids(fixture.index({.heads = true})), std::vector<std::string>{"W-HEADS"});
}

// A head's gate lies behind its query.
TEST(HeadProductsTest, GatesAreNoPartOfTheQuery) {
  ModelFixture fixture;
  fixture.config("model_type", "qwen3_next");
  fixture.config("num_attention_heads", 4);
  fixture.config("num_key_value_heads", 2);
  add_attention(fixture, "model.layers.3.self_attn.", {48, 12, 12, 24});
  const ModelIndex index = fixture.index({.heads = true});
  EXPECT_EQ(recipe(product_of(index, "model.layers.3.self_attn.qk", 2)),
            "q_proj[24:30,0:10]' k_proj[6:12,0:10] = 10x10 rank 6");
  EXPECT_EQ(recipe(product_of(index, "model.layers.3.self_attn.ov", 1)),
            "o_proj[0:10,6:12] v_proj[0:6,0:10] = 10x10 rank 6");
  fixture.config("model_type", "llama");
  EXPECT_EQ(refusal(fixture, {.heads = true}), "E-HEADS");
}

TEST(HeadProductsTest, OneNameForTwoOrdersNeedsTheArchitecture) {
  ModelFixture bailing;
  bailing.config("model_type", "bailing_moe");
  bailing.config("num_attention_heads", 4);
  bailing.config("num_key_value_heads", 1);
  bailing.bf16("model.layers.0.attention.query_key_value.weight", {24, 10});
  bailing.bf16("model.layers.0.attention.dense.weight", {10, 16});
  EXPECT_EQ(recipe(product_of(bailing.index({.heads = true}), "model.layers.0.attention.qk", 3)),
            "query_key_value[12:16,0:10]' query_key_value[16:20,0:10] = 10x10 rank 4");
  bailing.config("model_type", "llama");
  EXPECT_EQ(refusal(bailing, {.heads = true}), "E-HEADS");
}

TEST(HeadProductsTest, MoreHeadsThanAnyModelHasAreRefused) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.config("num_attention_heads", 65'536);
  for (const char* layer : {"0", "1", "2"}) {
    const std::string prefix = std::string("model.layers.") + layer + ".self_attn.";
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      fixture.bf16(prefix + name + ".weight", {65'536, 1});
    }
    fixture.bf16(prefix + "o_proj.weight", {1, 65'536});
  }
  EXPECT_EQ(refusal(fixture, {.heads = true}), "E-MODEL-PRODUCTS");
}

}  // namespace
}  // namespace vindex::model::head_products_test
