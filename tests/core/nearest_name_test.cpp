#include <vindex/core/nearest_name.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex {
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

}  // namespace
}  // namespace vindex
