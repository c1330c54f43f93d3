// Which name is guessed for a misspelt one, and where no guess is made; the fast search agrees with
// comparing every name.
#include "core/text/nearest_name.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::nearest_name_test {
namespace {

TEST(NearestNameTest, FindsWhatWasMeant) {
  const std::vector<std::string> names = {"down_proj", "up_proj", "gate_proj", "o_proj", "router"};
  EXPECT_EQ(nearest_name("dwn_proj", names), "down_proj");
  EXPECT_EQ(nearest_name("downproj", names), "down_proj");
  EXPECT_EQ(nearest_name("donw_proj", names), "down_proj");
  EXPECT_EQ(nearest_name("Gate-Proj", names), "gate_proj");
  EXPECT_EQ(nearest_name("rooter", names), "router");
  EXPECT_EQ(nearest_name("router", names), "router");
}

TEST(NearestNameTest, GuessesNothingThatIsFar) {
  const std::vector<std::string> names = {"down_proj", "router"};
  EXPECT_EQ(nearest_name("embeddings", names), "");
  EXPECT_EQ(nearest_name("", names), "");
  EXPECT_EQ(nearest_name("down", {}), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'r'), names), "");
}

TEST(NearestNameTest, ASwapIsOneEditAndTheFirstOfEqualsWins) {
  EXPECT_EQ(nearest_name("ba", std::vector<std::string>{"ab", "bb"}), "ab");
  EXPECT_EQ(nearest_name("x", std::vector<std::string>{"xyz", "xy"}), "xy");
  // One edit beats two.
  EXPECT_EQ(nearest_name("abdc", std::vector<std::string>{"abxx", "abcd"}), "abcd");
}

TEST(NearestNamesTest, PartsComeFirstThenWhatIsNear) {
  using Names = std::vector<std::string>;
  const Names blocks = {"embedding", "router", "attention", "routed_expert", "shared_expert"};
  EXPECT_EQ(nearest_names("routed", blocks, 3), (Names{"routed_expert", "router"}));
  EXPECT_EQ(nearest_names("atention", blocks, 3), Names{"attention"});
  EXPECT_EQ(nearest_names("expert", blocks, 3), (Names{"routed_expert", "shared_expert"}));
  EXPECT_EQ(nearest_names("zzz", blocks, 3), Names{});
  EXPECT_EQ(nearest_names("", blocks, 3), Names{});
  EXPECT_EQ(nearest_names("model.norm.weight_scale_inv", Names{"model.norm.weight"}, 3),
            Names{"model.norm.weight"});
  EXPECT_EQ(did_you_mean("routed", blocks), "did you mean routed_expert or router?");
  EXPECT_EQ(did_you_mean("zzz", blocks), "");
  EXPECT_EQ(did_you_mean("a\x1b[1mb", Names{"a\x1b[1mc"}), "did you mean a\\x1b[1mc?");
}

TEST(NameListTest, ManyNamesAreCounted) {
  EXPECT_EQ(name_list({}), "");
  EXPECT_EQ(name_list(std::vector<std::string>{"a", "b\n"}), "a, b\\x0a");
  const std::vector<std::string> names(25, "x");
  const std::string text = name_list(names);
  EXPECT_TRUE(text.ends_with("x, ... (25 in all)")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), 'x'), 24);
}

TEST(NearestNamesTest, AgreesWithComparingEveryName) {
  std::vector<std::string> names;
  for (int layer = 0; layer < 40; ++layer) {
    for (const char* role : {"down_proj", "up_proj", "gate_proj"}) {
      names.push_back("model.layers." + std::to_string(layer) + ".mlp." + role + ".weight");
    }
  }
  for (const std::string text :
       {"model.layers.7.mlp.dwn_proj.weight", "model.layer.12.mlp.up_prj.weight",
        "model.layers.41.mlp.gate_proj.weight", "modle.layers.3.mlp.gate_proj.wieght"}) {
    EXPECT_EQ(nearest_names(text, names, 3).front(), nearest_name(text, names)) << text;
  }
}

}  // namespace
}  // namespace vindex::nearest_name_test
