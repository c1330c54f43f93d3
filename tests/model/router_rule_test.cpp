// Rules of routers by family: what config.json, GGUF keys and stored biases make of them.
#include "model_fixture.hpp"
#include "support/expect_error.hpp"

#include <vindex/model/router_rule.hpp>

#include <gtest/gtest.h>

namespace vindex::model {
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

TEST(RouterRule, LayersRoutedByTheTokenAreNamed) {
  ModelFixture fixture;
  set_config(fixture, R"({"model_type": "deepseek_v4", "num_experts_per_tok": 6})");
  fixture.add("layers.0.ffn.gate.tid2eid", decode::ElementType::kI32, {100, 6});
  const ModelRouters routers = model_routers(fixture.files());
  EXPECT_EQ(routers.hashed_layers, std::set<std::int32_t>{0});
  EXPECT_EQ(routers.rule.scoring, RouterScoring::kSqrtSoftplus);
}

}  // namespace
}  // namespace vindex::model
