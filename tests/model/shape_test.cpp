// The model's overall numbers: shown by tensors, claimed by keys, and what is said where they
// differ.
#include "model_fixture.hpp"

namespace vindex::model::shape_test {
namespace {

/// A mixture of 3 layers (the first dense), 4 experts of width 12, one shared, hidden 40.
ModelFixture mixture() {
  ModelFixture fixture;
  fixture.config("model_type", "deepseek_v3");
  fixture.config("num_hidden_layers", 3);
  fixture.config("n_routed_experts", 4);
  fixture.config("num_experts_per_tok", 2);
  fixture.config("n_shared_experts", 1);
  fixture.config("first_k_dense_replace", 1);
  fixture.config("hidden_size", 40);
  fixture.config("intermediate_size", 48);
  fixture.config("moe_intermediate_size", 12);
  fixture.config("vocab_size", 90);
  fixture.bf16("model.embed_tokens.weight", {90, 40});
  fixture.bf16("model.layers.0.mlp.down_proj.weight", {40, 48});
  for (const std::string layer : {"1", "2"}) {
    const std::string mlp = "model.layers." + layer + ".mlp.";
    fixture.bf16(mlp + "gate.weight", {4, 40});
    fixture.bf16(mlp + "shared_experts.down_proj.weight", {40, 12});
    for (const std::string expert : {"0", "1", "2", "3"}) {
      fixture.bf16(mlp + "experts." + expert + ".down_proj.weight", {40, 12});
    }
  }
  return fixture;
}

std::vector<std::string> texts(const ModelIndex& index) {
  std::vector<std::string> out;
  for (const Warning& warning : index.warnings) {
    out.push_back(warning.id + ": " + warning.text);
  }
  return out;
}

TEST(ShapeTest, AgreeingClaimsGiveNoWarning) {
  const ModelIndex index = mixture().index();
  EXPECT_TRUE(index.warnings.empty());
  EXPECT_EQ(index.shape.layers, 3);
  EXPECT_EQ(index.shape.experts, 4);
  EXPECT_EQ(index.shape.experts_per_token, 2);
  EXPECT_EQ(index.shape.shared_experts, 1);
  EXPECT_EQ(index.shape.dense_first_layers, 1);
  EXPECT_EQ(index.shape.quantisation, "none");
}

TEST(ShapeTest, EveryContradictionNamesBothNumbersAndTheTensorsAreBelieved) {
  struct Case {
    const char* key;
    std::uint64_t value;
    std::string warning;
  };
  for (const Case& c :
       {Case{"num_hidden_layers", 61, "num_hidden_layers says 61, the tensors show 3 layers"},
        Case{"n_routed_experts", 0, "n_routed_experts says 0, the tensors show 4 routed experts"},
        Case{"n_routed_experts", 256,
             "n_routed_experts says 256, the tensors show 4 routed experts"},
        Case{"num_experts_per_tok", 9,
             "num_experts_per_tok says 9, the tensors show 4 routed experts in all"},
        Case{"n_shared_experts", 2,
             "n_shared_experts says 2, the tensors show 1 shared experts by width"},
        Case{"first_k_dense_replace", 3,
             "first_k_dense_replace says 3, the tensors show 1 dense layers before the first "
             "experts"},
        Case{"hidden_size", 0, "hidden_size says 0, the tensors show 40 columns of the embedding"},
        Case{"moe_intermediate_size", 13,
             "moe_intermediate_size says 13, the tensors show 12 columns of the experts' "
             "down_proj"},
        Case{"vocab_size", 91, "vocab_size says 91, the tensors show 90 rows of the embedding"}}) {
    SCOPED_TRACE(c.key);
    ModelFixture fixture = mixture();
    fixture.config(c.key, c.value);
    const ModelIndex index = fixture.index();
    EXPECT_EQ(texts(index), std::vector<std::string>{"W-KEY-CONTRADICTS: " + c.warning});
    EXPECT_EQ(index.shape.layers, 3);
    EXPECT_EQ(index.shape.experts, 4);
    EXPECT_EQ(index.shape.shared_experts, 1);
    EXPECT_EQ(index.shape.dense_first_layers, 1);
  }
}

TEST(ShapeTest, ClaimsOfAWrongTypeAreWarnedOfAndIgnored) {
  for (const JsonValue::Storage& value :
       {JsonValue::Storage(std::string("3")), JsonValue::Storage(3.5),
        JsonValue::Storage(std::int64_t{-3}), JsonValue::Storage(JsonValue::Object{})}) {
    ModelFixture fixture = mixture();
    fixture.config("n_routed_experts", value);
    const ModelIndex index = fixture.index();
    EXPECT_EQ(warning_ids(index), std::vector<std::string>{"W-CONFIG-TYPE"});
    EXPECT_EQ(index.shape.experts, 4);
  }
  ModelFixture null = mixture();
  null.config("n_routed_experts", JsonValue::Storage(nullptr));
  EXPECT_TRUE(null.index().warnings.empty());
}

TEST(ShapeTest, RouterOfAnotherHeightIsWarnedOf) {
  ModelFixture fixture = mixture();
  fixture.bf16("model.layers.3.mlp.gate.weight", {5, 40});
  fixture.bf16("model.layers.3.mlp.experts.3.down_proj.weight", {40, 12});
  fixture.config("num_hidden_layers", 4);
  EXPECT_EQ(
      texts(fixture.index()),
      std::vector<std::string>{"W-ROUTER-ROWS: layer 3: the router has 5 rows, the experts are 1"});
}

TEST(ShapeTest, AnExpertStackShorterThanItsSiblingsIsWarnedOf) {
  ModelFixture fixture = ModelFixture::gguf("qwen3moe");
  for (const std::string layer : {"0", "1", "2"}) {
    const std::string block = "blk." + layer + ".ffn_";
    const std::int64_t ups = layer == "0" ? 4 : 3;
    fixture.bf16(block + "gate_exps.weight", {4, 12, 40});
    fixture.bf16(block + "up_exps.weight", {ups, 12, 40});
    fixture.bf16(block + "down_exps.weight", {4, 40, 12});
  }
  EXPECT_EQ(texts(fixture.index()),
            std::vector<std::string>{"W-EXPERT-COUNT: layer 1: 4 experts have gate_proj, 3 have "
                                     "up_proj; 1 more such layers"});
}

TEST(ShapeTest, GgufKeysAreComparedAndCountPredictionLayers) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  fixture.number_key("deepseek2.block_count", 2);
  fixture.number_key("deepseek2.expert_count", 8);
  fixture.number_key("deepseek2.expert_used_count", 2);
  fixture.bf16("blk.0.ffn_down_exps.weight", {3, 40, 12});
  fixture.bf16("blk.1.nextn.eh_proj.weight", {40, 80});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(texts(index),
            std::vector<std::string>{"W-KEY-CONTRADICTS: deepseek2.expert_count says 8, the "
                                     "tensors show 3 routed experts"});
  EXPECT_EQ(index.shape.layers, 2);
  EXPECT_EQ(index.shape.experts, 3);
  EXPECT_EQ(index.shape.experts_per_token, 2);
}

TEST(ShapeTest, GgufTypesAreListedByBytes) {
  ModelFixture fixture = ModelFixture::gguf("llama");
  fixture.add("token_embd.weight", decode::ElementType::kQ6_K, {4, 256});
  fixture.add("blk.0.ffn_up.weight", decode::ElementType::kQ4_K, {40, 256});
  fixture.add("blk.0.ffn_gate_inp.weight", decode::ElementType::kF32, {4, 256});
  EXPECT_EQ(fixture.index().shape.quantisation, "Q4_K, Q6_K");
}

TEST(ShapeTest, AModelWithoutExpertsClaimsNone) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.config("num_hidden_layers", 1);
  fixture.bf16("model.layers.0.mlp.down_proj.weight", {40, 48});
  const ModelIndex index = fixture.index();
  EXPECT_FALSE(index.shape.experts);
  EXPECT_FALSE(index.shape.experts_per_token);
  EXPECT_FALSE(index.shape.shared_experts);
  EXPECT_FALSE(index.shape.dense_first_layers);
  EXPECT_EQ(index.shape.layers, 1);
}

TEST(ShapeTest, ExpertsAreCountedAndNotReadOffTheHighestNumber) {
  ModelFixture fixture;
  fixture.config("model_type", "mixtral");
  fixture.config("num_local_experts", 2);
  fixture.bf16("model.layers.0.block_sparse_moe.experts.7.w1.weight", {12, 40});
  fixture.bf16("model.layers.0.block_sparse_moe.experts.999999999.w1.weight", {12, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(index.shape.experts, 2);
  EXPECT_TRUE(index.warnings.empty());
}

TEST(ShapeTest, ExpertsStoredTogetherAreCountedByTheirRouter) {
  ModelFixture fixture;
  fixture.config("model_type", "dbrx");
  fixture.config("ffn_config.moe_num_experts", 3);
  fixture.bf16("transformer.blocks.0.ffn.experts.mlp.w1", {72, 40});
  fixture.bf16("transformer.blocks.0.ffn.router.layer.weight", {3, 40});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(index.shape.experts, 3);
  EXPECT_TRUE(index.warnings.empty());
}

TEST(ShapeTest, AnEmptyModelHasAnEmptyIndex) {
  const ModelIndex index = ModelFixture().index();
  EXPECT_TRUE(index.matrices.empty());
  EXPECT_TRUE(index.tensors.empty());
  EXPECT_FALSE(index.shape.layers);
}

TEST(ShapeTest, AClaimedSchemeWithoutQuantisedWeightsIsWarnedOf) {
  ModelFixture fixture = mixture();
  fixture.block_size(128, 128);
  EXPECT_EQ(warning_ids(fixture.index()), std::vector<std::string>{"W-QUANTISATION"});
}

}  // namespace
}  // namespace vindex::model::shape_test
