// Names of tensors in lists: short, and never equal where they were different.
#include "core/text/short_names.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex {
namespace {

using Names = std::vector<std::string>;

TEST(ShortNamesTest, LoseWhatSaysNothingAndWhatAllShare) {
  const Names names = {"model.layers.3.mlp.experts.5.down_proj.weight",
                       "model.layers.12.mlp.experts.17.down_proj.weight"};
  const ShortNames result = short_names(names);
  EXPECT_EQ(result.names, (Names{"3.mlp.experts.5", "12.mlp.experts.17"}));
  EXPECT_EQ(result.shared, "model.layers.*.down_proj.weight");
}

TEST(ShortNamesTest, LoseTheUsualBeginningsWhereNotAllHaveThem) {
  const ShortNames result = short_names(
      Names{"model.layers.3.mlp.down_proj.weight", "model.embed_tokens.weight", "lm_head.weight"});
  EXPECT_EQ(result.names, (Names{"3.mlp.down_proj", "embed_tokens", "lm_head"}));
  EXPECT_EQ(result.shared, "*.weight");
}

TEST(ShortNamesTest, KeepSlicesAndEverythingThatTellsThemApart) {
  const ShortNames slices = short_names(Names{
      "blk.1.ffn_down_exps.weight[5]", "blk.1.ffn_down_exps.weight[1]", "blk.0.ffn_down.weight"});
  EXPECT_EQ(slices.names, (Names{"1.ffn_down_exps[5]", "1.ffn_down_exps[1]", "0.ffn_down"}));
  // Two that differ in nothing but what would be left out stay whole.
  const Names twins = {"model.layers.0.w.weight", "layers.0.w.weight", "x"};
  EXPECT_EQ(short_names(twins).names, twins);
}

TEST(ShortNamesTest, OneNameHasNothingToShare) {
  const ShortNames result = short_names(Names{"model.layers.3.mlp.down_proj.weight"});
  EXPECT_EQ(result.names, Names{"3.mlp.down_proj"});
  EXPECT_EQ(result.shared, "");
  EXPECT_EQ(short_names(Names{"weight", "weight"}).names, (Names{"weight", "weight"}));
  EXPECT_TRUE(short_names(Names{}).names.empty());
}

TEST(ShortNamesTest, TablesShortenNamesWhereTheyDoNotFit) {
  const std::vector<std::vector<std::string>> rows = {
      {"tensor", "error"},
      {"model.layers.3.mlp.experts.5.down_proj.weight", "0.1"},
      {"model.layers.3.mlp.experts.6.down_proj.weight", "0.2"}};
  const std::vector<TextColumn> columns = {{.min_width = 8}, {.right = true}};
  EXPECT_NE(names_table_text(rows, columns, 80).find(rows[1][0]), std::string::npos);
  const std::string shorter = names_table_text(rows, columns, 51);
  EXPECT_NE(shorter.find("\n3.mlp.experts.5.down_proj    0.1\n"), std::string::npos) << shorter;
  const std::string narrow = names_table_text(rows, columns, 30);
  EXPECT_EQ(narrow.find(rows[1][0]), std::string::npos) << narrow;
  EXPECT_EQ(narrow,
            "tensor  error\n"
            "5         0.1\n"
            "6         0.2\n"
            "names:\n"
            "  model.layers.3.mlp.experts.*.down_proj.weight\n");
}

}  // namespace
}  // namespace vindex
