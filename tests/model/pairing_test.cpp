// Which matrices of two models belong together, by hand.
#include "model/pairing/pairing.hpp"

#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::model::pairing_test {
namespace {

MatrixRecord matrix(const std::string& name, std::int32_t layer, const std::string& role,
                    std::int64_t rows = 8, std::int64_t cols = 6) {
  MatrixRecord record;
  record.tensor = name;
  record.layer = layer;
  record.block = Block::kAttention;
  record.role = role;
  record.rows = rows;
  record.cols = cols;
  return record;
}

MatrixRecord expert(const std::string& name, std::int32_t number, std::int32_t slice) {
  MatrixRecord record = matrix(name, 0, "down_proj");
  record.block = Block::kRoutedExpert;
  record.expert = number;
  record.slice = slice;
  return record;
}

ModelIndex model_of(std::vector<MatrixRecord> matrices) {
  ModelIndex index;
  index.matrices = std::move(matrices);
  return index;
}

std::vector<std::pair<int, int>> pairs_of(const Pairing& pairing) {
  std::vector<std::pair<int, int>> pairs;
  for (const MatrixPair& pair : pairing.pairs) {
    pairs.emplace_back(static_cast<int>(pair.a), static_cast<int>(pair.b));
  }
  return pairs;
}
using Pairs = std::vector<std::pair<int, int>>;

TEST(PairingTest, NamesDecideWhereBothHaveThem) {
  // Two embeddings of one shape and place: names alone tell them apart.
  const ModelIndex a = model_of({matrix("x", -1, "w"), matrix("y", -1, "w")});
  const ModelIndex b = model_of({matrix("y", -1, "w"), matrix("x", -1, "w")});
  EXPECT_EQ(pairs_of(pair_matrices(a, b, {})), (Pairs{{0, 1}, {1, 0}}));
}

TEST(PairingTest, PlaceDecidesWhereNamesDiffer) {
  const ModelIndex a =
      model_of({matrix("model.layers.0.q", 0, "q_proj"), matrix("model.layers.0.k", 0, "k_proj")});
  const ModelIndex b = model_of({matrix("blk.0.k", 0, "k_proj"), matrix("blk.0.q", 0, "q_proj"),
                                 matrix("blk.1.q", 1, "q_proj")});
  const Pairing pairing = pair_matrices(a, b, {});
  EXPECT_EQ(pairs_of(pairing), (Pairs{{0, 1}, {1, 0}}));
  ASSERT_EQ(pairing.b.size(), 1U);
  EXPECT_EQ(pairing.b[0].matrix, 2);
  EXPECT_EQ(pairing.b[0].reason, "A has no attention q_proj there");
}

TEST(PairingTest, AnExpertInAStackMeetsOneWithATensorOfItsOwn) {
  const ModelIndex a = model_of({expert("experts.0.w2", 0, -1), expert("experts.1.w2", 1, -1)});
  const ModelIndex b = model_of({expert("stack", 0, 0), expert("stack", 1, 1)});
  EXPECT_EQ(pairs_of(pair_matrices(a, b, {})), (Pairs{{0, 0}, {1, 1}}));
}

TEST(PairingTest, OtherShapesStayAloneAndSayWhy) {
  const ModelIndex a = model_of({matrix("q", 0, "q_proj", 8, 6), matrix("n", 0, "k_proj", 4, 4)});
  const ModelIndex b = model_of({matrix("q", 0, "q_proj", 6, 8), matrix("m", 0, "k_proj", 4, 5)});
  const Pairing pairing = pair_matrices(a, b, {});
  EXPECT_TRUE(pairing.pairs.empty());
  ASSERT_EQ(pairing.a.size(), 2U);
  EXPECT_EQ(pairing.a[0].reason, "it is 6 x 8 in B");
  EXPECT_EQ(pairing.a[1].reason, "it is 4 x 5 in B");
  ASSERT_EQ(pairing.b.size(), 2U);
  EXPECT_EQ(pairing.b[0].reason, "it is 8 x 6 in A");
}

TEST(PairingTest, WhatIsAmbiguousStaysAloneUnlessShapesTell) {
  const ModelIndex a =
      model_of({matrix("p", 0, "w", 8, 6), matrix("q", 0, "w", 4, 4), matrix("r", 0, "w", 4, 4)});
  const ModelIndex b = model_of({matrix("s", 0, "w", 4, 4), matrix("t", 0, "w", 8, 6)});
  const Pairing pairing = pair_matrices(a, b, {});
  EXPECT_EQ(pairs_of(pairing), (Pairs{{0, 1}}));
  ASSERT_EQ(pairing.a.size(), 2U);
  EXPECT_EQ(pairing.a[0].reason.rfind("ambiguous: ", 0), 0U);
  EXPECT_EQ(pairing.b.size(), 1U);
}

TEST(PairingTest, AMapMovesLayersAgainstTheirNames) {
  const auto layers = [](int count) {
    std::vector<MatrixRecord> matrices = {matrix("embed", -1, "embed_tokens")};
    for (int layer = 0; layer < count; ++layer) {
      matrices.push_back(matrix("layers." + std::to_string(layer) + ".q", layer, "q_proj"));
    }
    return model_of(std::move(matrices));
  };
  const Pairing pairing = pair_matrices(layers(3), layers(6), parse_layer_map("0-1:3-4"));
  EXPECT_EQ(pairs_of(pairing), (Pairs{{0, 0}, {1, 4}, {2, 5}}));
  ASSERT_EQ(pairing.a.size(), 1U);
  EXPECT_EQ(pairing.a[0].reason, "layer 2 of A is not in --map");
  EXPECT_EQ(pairing.b.size(), 4U);
}

MatrixRecord head(const std::string& name, std::int32_t layer, const std::string& role,
                  std::int32_t slice, std::int64_t rows, std::int64_t cols) {
  MatrixRecord record = matrix(name, layer, role, rows, cols);
  record.slice = slice;
  return record;
}

/// Two heads of 3 key and 2 value rows over 7: kv_b_proj is 10 x 7.
std::vector<MatrixRecord> split_heads(std::int32_t layer) {
  return {head("blk.k_b", layer, "k_b_proj", 0, 7, 3), head("blk.k_b", layer, "k_b_proj", 1, 7, 3),
          head("blk.v_b", layer, "v_b_proj", 0, 2, 7), head("blk.v_b", layer, "v_b_proj", 1, 2, 7)};
}

TEST(PairingTest, AKvBThatIsSplitIntoHeadsIsAPairWithAllOfThem) {
  const ModelIndex whole = model_of({matrix("model.kv_b", 0, "kv_b_proj", 10, 7)});
  const ModelIndex parts = model_of(split_heads(0));
  const Pairing there = pair_matrices(whole, parts, {});
  ASSERT_EQ(pairs_of(there), (Pairs{{0, 0}}));
  EXPECT_TRUE(there.a.empty() && there.b.empty());
  EXPECT_EQ(there.pairs[0].of(true), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(there.pairs[0].of(false), (std::vector<std::int64_t>{0, 2, 1, 3}));
  const Pairing back = pair_matrices(parts, whole, {});
  ASSERT_EQ(pairs_of(back), (Pairs{{0, 0}}));
  EXPECT_TRUE(back.a.empty() && back.b.empty());
  EXPECT_EQ(back.pairs[0].of(true), (std::vector<std::int64_t>{0, 2, 1, 3}));
  const MatrixRecord made = record_of_parts(parts, back.pairs[0].of(true), whole.matrices.front());
  EXPECT_EQ(made.tensor, "blk.k_b + blk.v_b");
  EXPECT_EQ(made.role, "kv_b_proj");
  EXPECT_EQ(made.slice, -1);
  EXPECT_EQ(made.rows, 10);
  EXPECT_EQ(made.cols, 7);
  // A map moves them as it moves everything.
  const ModelIndex deeper = model_of(split_heads(3));
  EXPECT_TRUE(pair_matrices(whole, deeper, {}).pairs.empty());
  EXPECT_EQ(pairs_of(pair_matrices(whole, deeper, parse_layer_map("0:3"))), (Pairs{{0, 0}}));
}

TEST(PairingTest, HeadsThatDoNotMakeUpTheWholeStayAlone) {
  for (const std::int64_t rows : {9, 11}) {
    const Pairing pairing = pair_matrices(model_of({matrix("model.kv_b", 0, "kv_b_proj", rows, 7)}),
                                          model_of(split_heads(0)), {});
    EXPECT_TRUE(pairing.pairs.empty());
    EXPECT_EQ(pairing.a.size(), 1U);
    EXPECT_EQ(pairing.b.size(), 4U);
  }
  std::vector<MatrixRecord> cut = split_heads(0);
  cut.pop_back();
  EXPECT_TRUE(
      pair_matrices(model_of({matrix("model.kv_b", 0, "kv_b_proj", 10, 7)}), model_of(cut), {})
          .pairs.empty());
}

TEST(PairingTest, ALayerMapIsReadWholeOrRefused) {
  const LayerMap map = parse_layer_map("0-10:4-14,20:22");
  ASSERT_EQ(map.size(), 2U);
  EXPECT_EQ(map[0].last_a, 10);
  EXPECT_EQ(map[0].first_b, 4);
  EXPECT_EQ(map[1].first_a, 20);
  EXPECT_TRUE(parse_layer_map("").empty());
  for (const char* text : {"0-10", "0-10:4-13", "3-1:3-1", "a:b", "0-2:4-6,2:9", "0:1,5:1", ":",
                           "-1:2", "0:1,,", "99999999999:1"}) {
    try {
      (void)parse_layer_map(text);
      ADD_FAILURE() << text;
    } catch (const UsageError& error) {
      EXPECT_EQ(error.id(), "E-MAP") << text;
    }
  }
}

}  // namespace
}  // namespace vindex::model::pairing_test
