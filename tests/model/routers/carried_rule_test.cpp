// The rule of routers that a dump carries: the same bits back, and what is no such text.
#include "model/routers/carried_rule.hpp"

#include "model/routers/read_router_rule.hpp"
#include "tests/model/model_fixture.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

namespace vindex::model::carried_rule_test {
namespace {

ModelFixture deepseek() {
  ModelFixture fixture;
  fixture.files().config =
      parse_json(R"({"model_type": "deepseek_v3", "num_experts_per_tok": 2, "n_group": 2,
                     "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.446})",
                 "config.json", {});
  fixture.add("model.layers.3.mlp.gate.e_score_correction_bias", decode::ElementType::kF32, {4});
  std::vector<std::byte> bytes(1016);
  const std::vector<float> biases = {0.1F, -3e-8F, 7.25F, 1.0F / 3.0F};
  std::memcpy(bytes.data() + 1000, biases.data(), 16);
  fixture.bytes(std::move(bytes));
  return fixture;
}

TEST(CarriedRule, IsReadBackToTheBit) {
  ModelFixture model = deepseek();
  const ModelRouters routers = model_routers(model.files());
  const CarriedRule carried = read_carried_rule(carried_rule_text(model.files()), "dump");
  EXPECT_EQ(carried.rule, routers.rule);
  EXPECT_EQ(carried.family, "deepseek_v3");
  EXPECT_EQ(carried.expects_bias, routers.expects_bias);
  ASSERT_EQ(carried.biases.size(), 1U);
  EXPECT_EQ(carried.biases.at(3), read_router_bias(model.files(), routers.bias_tensors.at(3)));
}

TEST(CarriedRule, WhatIsNoneIsRefused) {
  ModelFixture fixture = deepseek();
  const std::string good = carried_rule_text(fixture.files());
  const auto outcome = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return testing::outcome_of([&] { read_carried_rule(text, "dump"); });
  };
  EXPECT_EQ(outcome("sigmoid", "sigmoid"), "");
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"router-rule/1", "router-rule/9"},
                                                        {"sigmoid", "hardmax"},
                                                        {"\"top_k\":2", "\"top_k\":0"},
                                                        {"\"top_k\":2", "\"top_k\":1.5"},
                                                        {"\"top_k\":2", "\"top_k\":99999999999"},
                                                        {"\"scale\":2.446", "\"scale\":-1"},
                                                        {"\"scale\":2.446", "\"scale\":\"2\""},
                                                        {"two largest", "median"},
                                                        {"\"biases\":{\"3\"", "\"biases\":{\"-3\""},
                                                        {"7.25", "1e300"},
                                                        {"7.25", "null"},
                                                        {"\"biased\":true", "\"biased\":1"}}) {
    EXPECT_EQ(outcome(from, to), "E-DUMP-RULE 65") << from << " " << to;
  }
  EXPECT_EQ(testing::outcome_of([] { read_carried_rule("{", "dump"); }), "E-JSON-SYNTAX 65");
  EXPECT_EQ(testing::outcome_of([] { read_carried_rule("[]", "dump"); }), "E-DUMP-RULE 65");
}

}  // namespace
}  // namespace vindex::model::carried_rule_test
