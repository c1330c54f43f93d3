// What is stored of a model, as which types, and what is said of what is not.
#include "commands/lookup/store/store_plan.hpp"

#include "feature_model.hpp"

#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace vindex::commands::store_plan_test {
namespace {

using decode::ElementType;
using testing::empty_tensor;
using testing::mlp_name;
using testing::TypedTensor;

class StorePlanTest : public ::testing::Test {
 protected:
  StorePlan plan(const std::vector<TypedTensor>& tensors, StoreSettings settings = {}) {
    const std::string model =
        testing::write_feature_model(folder_, std::to_string(++models_), tensors);
    const auto source = open_weights(model, "", 1, {});
    return plan_features(settings, *source);
  }
  /// gate_proj of two layers, 6 features of 4 inputs each, in these types.
  static std::vector<TypedTensor> gates(const std::string& first, const std::string& second) {
    return {empty_tensor(mlp_name(0, "gate_proj"), first, 6, 4),
            empty_tensor(mlp_name(1, "gate_proj"), second, 6, 4)};
  }
  static std::vector<TypedTensor> with(std::vector<TypedTensor> some,
                                       const std::vector<TypedTensor>& more) {
    some.insert(some.end(), more.begin(), more.end());
    return some;
  }

 private:
  testing::TemporaryFolder folder_;
  int models_ = 0;
};

TEST_F(StorePlanTest, TheTypeHoldsTheWeightsWhereOneDoes) {
  const std::vector<std::pair<std::pair<std::string, std::string>, ElementType>> cases = {
      {{"F32", "F32"}, ElementType::kF32},  {{"BF16", "BF16"}, ElementType::kBF16},
      {{"F16", "F16"}, ElementType::kF16},  {{"F16", "BF16"}, ElementType::kF32},
      {{"BF16", "F32"}, ElementType::kF32}, {{"F64", "F64"}, ElementType::kF32}};
  for (const auto& [types, wanted] : cases) {
    EXPECT_EQ(plan(gates(types.first, types.second)).type, wanted)
        << types.first << " and " << types.second;
  }
  StoreSettings chosen;
  chosen.type = ElementType::kBF16;
  EXPECT_EQ(plan(gates("F32", "F32"), chosen).type, ElementType::kBF16);
}

TEST_F(StorePlanTest, FeaturesAreNumberedThroughAndOtherWidthsAreNamed) {
  const StorePlan found =
      plan(with(gates("F32", "F32"), {empty_tensor(mlp_name(2, "gate_proj"), "F32", 9, 5),
                                      empty_tensor(mlp_name(3, "gate_proj"), "F32", 8, 4),
                                      empty_tensor("model.embed_tokens.weight", "BF16", 20, 4)}));
  EXPECT_EQ(found.width, 4);
  EXPECT_EQ(found.features, 6 + 6 + 8);
  ASSERT_EQ(found.rows.size(), 4U);
  ASSERT_EQ(found.matrices.size(), 3U);
  EXPECT_EQ(found.matrices[1].first, 6);
  EXPECT_EQ(found.matrices[2].first, 12);
  EXPECT_EQ(found.matrices[2].row, 3U);
  EXPECT_EQ(found.rows[2].reason, "takes 5 inputs, the others 4");
  EXPECT_GE(found.embedding, 0);
  EXPECT_EQ(found.embedding_type, ElementType::kBF16);
}

TEST_F(StorePlanTest, AnEmbeddingOfAnotherWidthIsNotStored) {
  const StorePlan found =
      plan(with(gates("F32", "F32"), {empty_tensor("model.embed_tokens.weight", "F32", 20, 7)}));
  EXPECT_EQ(found.embedding, -1);
  EXPECT_EQ(found.width, 4) << "no matrix takes what the embedding has";
}

TEST_F(StorePlanTest, WhyNoEntriesAreNamed) {
  const std::vector<TypedTensor> ends = {empty_tensor("model.embed_tokens.weight", "F32", 20, 4),
                                         empty_tensor("lm_head.weight", "F32", 20, 4)};
  const TypedTensor down = empty_tensor(mlp_name(0, "down_proj"), "F32", 4, 6);
  EXPECT_EQ(plan(gates("F32", "F32")).no_tokens, "the model has no output embedding");
  EXPECT_EQ(plan(with(gates("F32", "F32"), ends)).no_tokens,
            "no down_proj is as wide as the output embedding");
  const StorePlan named = plan(with(with(gates("F32", "F32"), ends), {down}));
  EXPECT_EQ(named.no_tokens, "");
  EXPECT_EQ(named.named, 8);
  StoreSettings none;
  none.tokens_out = 0;
  const StorePlan unnamed = plan(with(with(gates("F32", "F32"), ends), {down}), none);
  EXPECT_EQ(unnamed.no_tokens, "none are stored (--tokens-out 0)");
  EXPECT_EQ(unnamed.named, 0);
}

TEST_F(StorePlanTest, AModelWithoutFeaturesOrASelectionOfNoneIsRefused) {
  EXPECT_EQ(testing::outcome_of([&] {
              plan({empty_tensor("model.layers.0.self_attn.q_proj.weight", "F32", 4, 4)});
            }),
            "E-NOTHING 66");
  StoreSettings other;
  other.run.selection = model::parse_selection("3", "", "", "");
  EXPECT_EQ(testing::outcome_of([&] { plan(gates("F32", "F32"), other); }), "E-SELECTION 64");
}

}  // namespace
}  // namespace vindex::commands::store_plan_test
