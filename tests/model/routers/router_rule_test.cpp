// Rules of routers by family: what config.json, GGUF keys and stored biases make of them.
#include "model/routers/read_router_rule.hpp"
#include "tests/model/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace vindex::model::router_rule_test {
namespace {

void set_config(ModelFixture& fixture, const std::string& text) {
  fixture.files().config = parse_json(text, "config.json", {});
}

ModelRouters routers_of(const std::string& config) {
  ModelFixture fixture;
  set_config(fixture, config);
  return model_routers(fixture.files());
}

TEST(RouterRule, DeepSeekV3ReadsGroupsScaleAndBias) {
  ModelFixture fixture;
  set_config(fixture, R"({"model_type": "deepseek_v3", "num_experts_per_tok": 8, "n_group": 8,
                     "topk_group": 4, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
                     "scoring_func": "sigmoid", "topk_method": "noaux_tc"})");
  fixture.add("model.layers.3.mlp.gate.weight", decode::ElementType::kBF16, {256, 64});
  const std::int32_t bias = fixture.add("model.layers.3.mlp.gate.e_score_correction_bias",
                                        decode::ElementType::kF32, {256});
  const ModelRouters routers = model_routers(fixture.files());
  const RouterRule& rule = routers.rule;
  EXPECT_EQ(rule.scoring, RouterScoring::kSigmoid);
  EXPECT_EQ(rule.top_k, 8);
  EXPECT_TRUE(rule.normalised);
  EXPECT_EQ(rule.scale, 2.5);
  EXPECT_EQ(rule.groups, 8);
  EXPECT_EQ(rule.chosen_groups, 4);
  EXPECT_EQ(rule.group_score, GroupScore::kTwoLargest);
  EXPECT_TRUE(rule.biased);
  EXPECT_EQ(routers.bias_tensors, (std::map<std::int32_t, std::int32_t>{{3, bias}}));
}

TEST(RouterRule, DeepSeekV2ScalesWhatItDoesNotNormalise) {
  RouterRule rule = routers_of(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6,
      "n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy",
      "norm_topk_prob": false, "routed_scaling_factor": 16.0})")
                        .rule;
  EXPECT_EQ(rule.scoring, RouterScoring::kSoftmax);
  EXPECT_EQ(rule.group_score, GroupScore::kLargest);
  EXPECT_EQ(rule.groups, 8);
  EXPECT_EQ(rule.scale, 16.0);
  EXPECT_FALSE(rule.biased);
  rule = routers_of(R"({"model_type": "deepseek_v2", "num_experts_per_tok": 6, "n_group": 8,
      "topk_group": 3, "topk_method": "greedy", "norm_topk_prob": true,
      "routed_scaling_factor": 16.0})")
             .rule;
  EXPECT_FALSE(rule.is_grouped());
  EXPECT_TRUE(rule.normalised);
  EXPECT_EQ(rule.scale, 1.0);
}

TEST(RouterRule, FamiliesByThemselves) {
  const auto with = [](const std::string& family, const std::string& more = "") {
    return routers_of(R"({"model_type": ")" + family + R"(", "num_experts_per_tok": 2)" + more +
                      "}")
        .rule;
  };
  EXPECT_EQ(with("mixtral"), (RouterRule{.top_k = 2, .normalised = true}));
  EXPECT_EQ(with("gpt_oss"), (RouterRule{.top_k = 2, .normalised = true}));
  EXPECT_EQ(with("olmoe"), (RouterRule{.top_k = 2}));
  EXPECT_EQ(with("qwen3_moe", R"(, "norm_topk_prob": true)"),
            (RouterRule{.top_k = 2, .normalised = true}));
  EXPECT_EQ(with("llama4"), (RouterRule{.scoring = RouterScoring::kSigmoid, .top_k = 2}));
  EXPECT_EQ(with("dbrx", R"(, "ffn_config": {"moe_normalize_expert_weights": 1})"),
            (RouterRule{.top_k = 2, .normalised = true}));
  // Nobody stored the biases: there are none to add.
  EXPECT_FALSE(with("minimax_m2").biased);
  EXPECT_TRUE(with("minimax_m2").normalised);
}

TEST(RouterRule, WrappersKeepTheRuleInside) {
  const RouterRule rule = routers_of(R"({"model_type": "kimi_k25", "text_config": {
      "model_type": "deepseek_v3", "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1,
      "norm_topk_prob": true, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid",
      "topk_method": "noaux_tc"}})")
                              .rule;
  EXPECT_EQ(rule.top_k, 8);
  EXPECT_EQ(rule.scale, 2.827);
  EXPECT_FALSE(rule.is_grouped());
}

TEST(RouterRule, GgufKeys) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  fixture.number_key("deepseek2.expert_used_count", 2);
  fixture.number_key("deepseek2.expert_gating_func", 2);
  const std::int32_t bias = fixture.add("blk.1.exp_probs_b.bias", decode::ElementType::kF32, {8});
  const ModelRouters routers = model_routers(fixture.files());
  EXPECT_EQ(routers.rule.scoring, RouterScoring::kSigmoid);
  EXPECT_EQ(routers.rule.top_k, 2);
  EXPECT_FALSE(routers.rule.normalised);  // expert_weights_norm is absent
  EXPECT_TRUE(routers.rule.biased);
  EXPECT_EQ(routers.bias_tensors.at(1), bias);
  ModelFixture mixture = ModelFixture::gguf("llama");
  mixture.number_key("llama.expert_used_count", 2);
  EXPECT_EQ(model_routers(mixture.files()).rule, (RouterRule{.top_k = 2, .normalised = true}));
}

TEST(RouterRule, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const std::string& config) {
    return testing::error_of([&] { routers_of(config); });
  };
  EXPECT_EQ(refusal(R"({"model_type": "phimoe", "num_experts_per_tok": 2})"), "E-ROUTER-UNKNOWN");
  EXPECT_EQ(refusal(R"({})"), "E-ROUTER-UNKNOWN");
  EXPECT_EQ(refusal(R"({"model_type": "mixtral"})"), "E-ROUTER-KEY");
  EXPECT_EQ(refusal(R"({"model_type": "mixtral", "num_experts_per_tok": 0})"), "E-ROUTER-KEY");
  EXPECT_EQ(refusal(R"({"model_type": "deepseek_v3", "num_experts_per_tok": 2,
                        "scoring_func": "tanh"})"),
            "E-ROUTER-KEY");
  EXPECT_EQ(refusal(R"({"model_type": "deepseek_v3", "num_experts_per_tok": 2,
                        "topk_method": "dice"})"),
            "E-ROUTER-KEY");
}

/// What a refusal says.
std::string refusal_text(const std::string& config) {
  return testing::message_of([&] { routers_of(config); });
}

// No key that makes the rule is passed over because it has a value of another type.
TEST(RouterRule, KeysOfAnotherTypeAreTold) {
  const std::string most = R"({"model_type": "deepseek_v3", "num_experts_per_tok": 2)";
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {R"("routed_scaling_factor": "x")", "routed_scaling_factor is the text \"x\""},
      {R"("routed_scaling_factor": true)", "routed_scaling_factor is true"},
      {R"("routed_scaling_factor": 0)", "routed_scaling_factor is 0"},
      {R"("routed_scaling_factor": -2.5)", "routed_scaling_factor is -2.5"},
      {R"("route_scale": [1])", "route_scale is a list"},
      {R"("norm_topk_prob": 1)", "norm_topk_prob is 1, where true or false"},
      {R"("norm_topk_prob": "true")", "norm_topk_prob is the text"},
      {R"("moe_renormalize": {})", "moe_renormalize is an object"},
      {R"("scoring_func": 2)", "scoring_func is 2, where a text"},
      {R"("scoring_func": "tanh")", "scoring_func \"tanh\" is not known"},
      {R"("topk_method": false)", "topk_method is false"},
      {R"("n_group": "8")", "n_group is the text \"8\""},
      {R"("n_group": 8.5)", "n_group is 8.5, where a non-negative integer"},
      {R"("n_group": 0)", "n_group is 0"},
      {R"("topk_group": -1)", "topk_group is -1"},
      {R"("text_config": {"topk_group": "4"})", "topk_group is the text"}};
  for (const auto& [key, text] : wrong) {
    const std::string said = refusal_text(most + ", " + key + "}");
    EXPECT_NE(said.find("E-ROUTER-KEY"), std::string::npos) << key << said;
    EXPECT_NE(said.find(text), std::string::npos) << key << said;
  }
  EXPECT_NE(refusal_text(R"({"model_type": "mixtral", "num_experts_per_tok": "2"})")
                .find("num_experts_per_tok is the text"),
            std::string::npos);
  EXPECT_NE(refusal_text(R"({"model_type": "dbrx", "num_experts_per_tok": 2,
                             "moe_normalize_expert_weights": "1"})")
                .find("moe_normalize_expert_weights is the text"),
            std::string::npos);
  // null is no value, and one number a layer is one number where all are equal.
  EXPECT_EQ(refusal_text(most + R"(, "n_group": null, "norm_topk_prob": null})"), "none");
  EXPECT_EQ(routers_of(R"({"model_type": "hunyuan_v1_moe", "moe_topk": [8, 8, 8]})").rule.top_k, 8);
  EXPECT_NE(refusal_text(R"({"model_type": "hunyuan_v1_moe", "moe_topk": [8, 4]})")
                .find("moe_topk is a list"),
            std::string::npos);
}

TEST(RouterRule, GgufKeysOfAnotherTypeAreTold) {
  for (const char* key :
       {"expert_used_count", "expert_gating_func", "expert_weights_norm", "expert_weights_scale",
        "expert_group_count", "expert_group_used_count"}) {
    ModelFixture fixture = ModelFixture::gguf("deepseek2");
    if (std::string(key) != "expert_used_count") {
      fixture.number_key("deepseek2.expert_used_count", 2);
    }
    fixture.text_key(std::string("deepseek2.") + key, "x");
    try {
      model_routers(fixture.files());
      ADD_FAILURE() << key;
    } catch (const ConfigurationError& error) {
      EXPECT_EQ(error.id(), "E-ROUTER-KEY");
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  }
}

TEST(RouterRule, BiasesThatAreMissingAreASurprise) {
  const auto expects = [](const std::string& family, const std::string& more = "") {
    const ModelRouters routers =
        routers_of(R"({"model_type": ")" + family + R"(", "num_experts_per_tok": 2)" + more + "}");
    EXPECT_FALSE(routers.rule.biased);
    return routers.expects_bias;
  };
  EXPECT_TRUE(expects("deepseek_v3", R"(, "topk_method": "noaux_tc")"));
  EXPECT_TRUE(expects("minimax_m2"));
  EXPECT_FALSE(expects("deepseek_v3", R"(, "topk_method": "greedy")"));
  EXPECT_FALSE(expects("mixtral"));
  // llama.cpp's deepseek2 is V2 too, which has none.
  for (const std::uint64_t function : {1U, 2U}) {
    ModelFixture fixture = ModelFixture::gguf("deepseek2");
    fixture.number_key("deepseek2.expert_used_count", 2);
    fixture.number_key("deepseek2.expert_gating_func", function);
    EXPECT_EQ(model_routers(fixture.files()).expects_bias, function == 2);
  }
}

TEST(RouterRule, LayersRoutedByTheTokenAreNamed) {
  ModelFixture fixture;
  set_config(fixture, R"({"model_type": "deepseek_v4", "num_experts_per_tok": 6})");
  fixture.add("layers.0.ffn.gate.tid2eid", decode::ElementType::kI32, {100, 6});
  const ModelRouters routers = model_routers(fixture.files());
  EXPECT_EQ(routers.hashed_layers, std::set<std::int32_t>{0});
  EXPECT_EQ(routers.rule.scoring, RouterScoring::kSqrtSoftplus);
}

}  // namespace
}  // namespace vindex::model::router_rule_test
