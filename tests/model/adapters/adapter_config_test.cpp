// What adapter_config.json and the keys of a GGUF adapter make of an adapter: experts side by side
// in one pair, keys that make it more than a sum, values of another kind than the tool's own.
#include "model/adapters/adapter_names.hpp"
#include "tests/model/products/product_fixture.hpp"

namespace vindex::model::adapter_config_test {
namespace {

using decode::ElementType;

std::pair<std::string, JsonValue> member(const char* name, JsonValue::Storage value) {
  return {name, JsonValue(std::move(value))};
}

std::pair<std::string, JsonValue> texts(const char* name, const std::vector<std::string>& list) {
  JsonValue::Array out;
  for (const std::string& text : list) {
    out.emplace_back(JsonValue::Storage(text));
  }
  return {name, JsonValue(std::move(out))};
}

const std::string kPrefix = "base_model.model.model.layers.3.";

/// Three experts of rank 2: gate_up_proj 12 x 10 within down_proj 10 x 6; o_proj beside them.
ModelFixture experts(JsonValue::Object members) {
  ModelFixture fixture;
  fixture.bf16(kPrefix + "mlp.experts.base_layer.lora_A.weight", {6, 10});
  fixture.bf16(kPrefix + "mlp.experts.base_layer.lora_B.weight", {12, 6});
  fixture.bf16(kPrefix + "mlp.experts.lora_A.weight", {6, 6});
  fixture.bf16(kPrefix + "mlp.experts.lora_B.weight", {10, 6});
  fixture.bf16(kPrefix + "self_attn.o_proj.lora_A.weight", {2, 8});
  fixture.bf16(kPrefix + "self_attn.o_proj.lora_B.weight", {10, 2});
  members.push_back(member("r", std::uint64_t{2}));
  members.push_back(member("lora_alpha", std::uint64_t{6}));
  fixture.files().adapter = JsonValue(std::move(members));
  return fixture;
}

TEST(AdapterConfigTest, ExpertsHaveAPairEach) {
  const std::vector<std::vector<std::string>> spellings = {
      {"mlp.experts.down_proj", "mlp.experts.gate_up_proj"},
      {"model.layers.3.mlp.experts.gate_up_proj", "model.layers.3.mlp.experts.down_proj"},
      {"gate_up_proj", "down_proj"}};
  for (const auto& targets : spellings) {
    ModelFixture fixture =
        experts({texts("target_parameters", targets), texts("target_modules", {"o_proj"})});
    const ModelIndex index = fixture.index({.lora = true});
    EXPECT_TRUE(index.warnings.empty()) << index.warnings[0].text;
    const std::string name = "model.layers.3.mlp.experts.";
    for (std::int32_t expert = 0; expert < 3; ++expert) {
      const MatrixRecord& down = product_of(index, name + "down_proj", expert);
      EXPECT_EQ(describe(down), fmt::format("3/routed_expert/down_proj/{0}/{0} 10x6", expert));
      EXPECT_EQ(down.product->scale, 3.0);
      const ProductFactor& b = down.product->factors[0];
      EXPECT_EQ(b.matrix->tensor, kPrefix + "mlp.experts.lora_B.weight");
      EXPECT_EQ(std::tuple(b.first_col, b.col_step, b.cols), std::tuple(expert, 3, 2));
      const ProductFactor& a = down.product->factors[1];
      EXPECT_EQ(std::tuple(a.first_row, a.rows, a.cols), std::tuple(2 * expert, 2, 6));
      const MatrixRecord& gate = product_of(index, name + "gate_up_proj", expert);
      EXPECT_EQ(describe(gate), fmt::format("3/routed_expert/gate_up_proj/{0}/{0} 12x10", expert));
      EXPECT_EQ(gate.product->factors[0].matrix->tensor,
                kPrefix + "mlp.experts.base_layer.lora_B.weight");
    }
    EXPECT_EQ(describe(product_of(index, "model.layers.3.self_attn.o_proj.weight", -1)),
              "3/attention/o_proj/-1/-1 10x8");
  }
}

TEST(AdapterConfigTest, PatternsOfExpertsAreOfTheirParameter) {
  ModelFixture fixture = experts(
      {texts("target_parameters", {"experts.down_proj", "experts.gate_up_proj"}),
       member("rank_pattern", JsonValue::Object{member("experts.down_proj", std::uint64_t{3})}),
       member("alpha_pattern", JsonValue::Object{member(".*\\.down_proj", 12.0)})});
  const ModelIndex index = fixture.index({.lora = true});
  const MatrixRecord& down = product_of(index, "model.layers.3.mlp.experts.down_proj", 1);
  EXPECT_EQ(down.product->scale, 4.0);
  EXPECT_EQ(down.product->factors[0].col_step, 2);
  EXPECT_EQ(product_of(index, "model.layers.3.mlp.experts.gate_up_proj", 2).product->scale, 3.0);
}

TEST(AdapterConfigTest, PairsOfUnknownParametersAreUnsupportedRows) {
  const auto why = [](JsonValue::Object members, const std::string& name) {
    ModelFixture fixture = experts(std::move(members));
    return product_of(fixture.index({.lora = true}), name, -1).unsupported;
  };
  const std::string module = "model.layers.3.mlp.experts.weight";
  EXPECT_EQ(why({}, module), "one of several pairs of a module without target_parameters");
  EXPECT_EQ(why({texts("target_parameters", {"experts.down_proj"})}, module),
            "target_parameters: which of down_proj its 2 pairs are of is unknown");
  EXPECT_EQ(why({texts("target_parameters", {"experts.x", "experts.y"})}, module),
            "target_parameters: which of x, y its 2 pairs are of is unknown");
  EXPECT_EQ(
      why({texts("target_parameters", {"experts.down_proj", "experts.gate_up_proj"}),
           member("rank_pattern",
                  JsonValue::Object{member("experts.down_proj", std::uint64_t{4})})},
          "model.layers.3.mlp.experts.down_proj"),
      "target_parameters: A is [6, 6], B is [10, 6], which is not a pair of rank 4 an expert");
}

TEST(AdapterConfigTest, FactorsAreInTheBlockOfTheirWeight) {
  ModelFixture fixture;
  fixture.bf16(kPrefix + "mlp.down_proj.lora_A.weight", {2, 6});
  fixture.bf16(kPrefix + "mlp.down_proj.lora_B.weight", {10, 2});
  fixture.bf16("base_model.model.lm_head.base_layer.weight", {90, 10});
  fixture.bf16("base_model.model.model.embed_tokens.lora_embedding_A", {2, 90});
  fixture.bf16("base_model.model.model.embed_tokens.lora_embedding_B", {10, 2});
  fixture.files().adapter = JsonValue(JsonValue::Object{member("lora_alpha", 2.0)});
  const ModelIndex index = fixture.index({.lora = true});
  const auto blocks_of = [&](const std::string& part) {
    std::string out;
    for (const MatrixRecord& matrix : index.matrices) {
      if (matrix.tensor.find(part) != std::string::npos) {
        out += fmt::format("{} ", block_name(matrix.block));
      }
    }
    return out;
  };
  EXPECT_EQ(blocks_of("down_proj"), "dense_mlp dense_mlp dense_mlp ");
  EXPECT_EQ(blocks_of("embed_tokens"), "embedding embedding embedding ");
  EXPECT_EQ(blocks_of("lm_head"), "output ");
  EXPECT_EQ(index.tensors.front().block, Block::kOutput);
}

TEST(AdapterConfigTest, NamesOfWholeTensors) {
  EXPECT_EQ(base_tensor_name("base_model.model.lm_head.base_layer.weight"), "lm_head.weight");
  EXPECT_EQ(base_tensor_name("base_model.model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(base_tensor_name("lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(base_tensor_name("base_layer"), "base_layer");
}

/// The text of the one warning `id`; "" for none.
std::string warned(JsonValue::Object members, const std::string& id = "W-LORA-VARIANT") {
  ModelFixture fixture = experts(std::move(members));
  std::string text;
  for (const Warning& warning : fixture.index({.lora = true}).warnings) {
    text += warning.id == id ? warning.text : "";
  }
  return text;
}

TEST(AdapterConfigTest, AdaptersThatAreMoreThanTheirProductsAreTold) {
  for (const std::string init :
       {"pissa", "pissa_niter_16", "olora", "OLoRA", "corda", "loftq", "lora_ga", "of_tomorrow"}) {
    EXPECT_NE(warned({member("init_lora_weights", init)}).find(init), std::string::npos) << init;
  }
  for (const JsonValue::Storage& init :
       {JsonValue::Storage(true), JsonValue::Storage(false), JsonValue::Storage(nullptr),
        JsonValue::Storage(std::string("gaussian")), JsonValue::Storage(std::string("eva")),
        JsonValue::Storage(std::string("orthogonal")), JsonValue::Storage(std::string("mica"))}) {
    EXPECT_EQ(warned({member("init_lora_weights", init)}), "");
  }
  const JsonValue::Array some(1, JsonValue(JsonValue::Storage(std::uint64_t{7})));
  for (const char* key : {"alora_invocation_tokens", "layer_replication", "arrow_config"}) {
    EXPECT_TRUE(warned({member(key, some)}).starts_with(key)) << key;
    EXPECT_EQ(warned({member(key, nullptr)}), "") << key;
  }
  // PEFT asks for None alone: an adapter of an empty invocation acts on no token.
  for (const char* key : {"alora_invocation_tokens", "arrow_config"}) {
    EXPECT_TRUE(warned({member(key, JsonValue::Array())}).starts_with(key)) << key;
    EXPECT_TRUE(warned({member(key, JsonValue::Object())}).starts_with(key)) << key;
    EXPECT_TRUE(warned({member(key, false)}).starts_with(key)) << key;
  }
  EXPECT_EQ(warned({member("layer_replication", JsonValue::Array())}), "");
}

TEST(AdapterConfigTest, FactorsThatMakeNoProductLeaveNoRow) {
  for (const char* key :
       {"use_qalora", "use_bdlora", "kasa_config", "monteclora_config", "enable_lora"}) {
    ModelFixture fixture = experts({member(key, true)});
    const ModelIndex index = fixture.index({.lora = true});
    const MatrixRecord& row = product_of(index, "model.layers.3.self_attn.o_proj.weight", -1);
    EXPECT_NE(row.unsupported.find(key), std::string::npos) << row.unsupported;
  }
}

TEST(AdapterConfigTest, UnknownKeysAreNamed) {
  const std::string one = warned({member("tomorrow", true)}, "W-LORA-KEYS");
  EXPECT_NE(one.find("tomorrow"), std::string::npos) << one;
  EXPECT_EQ(warned({member("tomorrow", nullptr)}, "W-LORA-KEYS"), "");
  EXPECT_EQ(warned({member("tomorrow", std::uint64_t{0})}, "W-LORA-KEYS"), "");
  EXPECT_EQ(warned({member("megatron_core", std::string("megatron.core"))}, "W-LORA-KEYS"), "");
  JsonValue::Object many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(member(fmt::format("key{}", i).c_str(), true));
  }
  const std::string all = warned(many, "W-LORA-KEYS");
  EXPECT_NE(all.find("1000 in all"), std::string::npos) << all;
  EXPECT_LT(all.size(), 1000U);
}

TEST(AdapterConfigTest, ValuesOfAnotherKindAreRefused) {
  const std::string text = "yes";
  const JsonValue::Array list;
  const std::vector<JsonValue::Object> wrong = {{member("use_dora", std::uint64_t{1})},
                                                {member("use_dora", text)},
                                                {member("use_rslora", std::uint64_t{1})},
                                                {member("use_rslora", text)},
                                                {member("use_rslora", list)},
                                                {member("init_lora_weights", std::uint64_t{1})},
                                                {member("target_parameters", text)},
                                                {texts("target_parameters", {""})}};
  for (const JsonValue::Object& members : wrong) {
    ModelFixture fixture = experts(members);
    EXPECT_EQ(refusal(fixture, {.lora = true}), "E-LORA-CONFIG") << members[0].first;
  }
  for (const JsonValue::Storage& rank :
       {JsonValue::Storage(text), JsonValue::Storage(std::uint64_t{0}), JsonValue::Storage(-2.0),
        JsonValue::Storage(2.5)}) {
    ModelFixture fixture = experts({});
    fixture.files().adapter = JsonValue(JsonValue::Object{member("r", rank)});
    EXPECT_EQ(refusal(fixture, {.lora = true}), "E-LORA-CONFIG");
  }
  ModelFixture no_object = experts({});
  no_object.files().adapter = JsonValue(JsonValue::Array());
  EXPECT_EQ(refusal(no_object, {.lora = true}), "E-LORA-CONFIG");
  ModelFixture no_type = experts({member("peft_type", std::uint64_t{1})});
  EXPECT_EQ(refusal(no_type, {.lora = true}), "E-LORA-TYPE");
}

// A list of hostile targets may not be searched for every pair.
TEST(AdapterConfigTest, TargetsAreBounded) {
  std::vector<std::string> many;
  for (int i = 0; i < 60'000; ++i) {
    many.push_back(fmt::format("experts.x{}", i));
  }
  ModelFixture of_one = experts({texts("target_parameters", many)});
  EXPECT_EQ(refusal(of_one, {.lora = true}), "E-LORA-CONFIG");
  ModelFixture long_one = experts({texts("target_parameters", {std::string(600, 'a')})});
  EXPECT_EQ(refusal(long_one, {.lora = true}), "E-LORA-CONFIG");
  for (std::string& name : many) {
    name = "layers." + name.substr(9) + ".mlp.experts.down_proj";
  }
  ModelFixture layers = experts({texts("target_parameters", many)});
  EXPECT_EQ(refusal(layers, {.lora = true}), "none");
}

TEST(AdapterConfigTest, KeysOfGgufAdapters) {
  const auto adapter = [](const gguf::Key& key) {
    ModelFixture fixture = ModelFixture::gguf("llama");
    fixture.text_key("general.type", "adapter");
    fixture.text_key("adapter.type", "lora");
    fixture.files().keys.push_back(key);
    fixture.bf16("blk.1.attn_q.weight.lora_a", {4, 10});
    fixture.bf16("blk.1.attn_q.weight.lora_b", {24, 4});
    return fixture;
  };
  gguf::Key alpha;
  alpha.name = "adapter.lora.alpha";
  alpha.type = gguf::ValueType::kString;
  alpha.value = std::string("8");
  ModelFixture text = adapter(alpha);
  EXPECT_EQ(refusal(text, {.lora = true}), "E-LORA-CONFIG");
  for (const gguf::ValueType type : {gguf::ValueType::kBool, gguf::ValueType::kArray}) {
    alpha.type = type;
    alpha.value = std::uint64_t{1};
    ModelFixture other = adapter(alpha);
    EXPECT_EQ(refusal(other, {.lora = true}), "E-LORA-CONFIG");
  }
  gguf::Key tokens;
  tokens.name = "adapter.alora.invocation_tokens";
  tokens.type = gguf::ValueType::kArray;
  tokens.array_count = 3;
  ModelFixture gated = adapter(tokens);
  const ModelIndex index = gated.index({.lora = true});
  EXPECT_EQ(index.warnings.front().id, "W-LORA-VARIANT");
  tokens.array_count = 0;
  ModelFixture plain = adapter(tokens);
  EXPECT_EQ(warning_ids(plain.index({.lora = true})), std::vector<std::string>{"W-LORA-ALPHA"});
}

}  // namespace
}  // namespace vindex::model::adapter_config_test
