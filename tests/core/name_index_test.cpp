// Look-up and duplicates in a list of names.
#include "core/text/name_index.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::name_index_test {
namespace {

TEST(NameIndexTest, FindsEveryNameAndNoOther) {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back("layers." + std::to_string(i) + ".weight");
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const NameIndex index(views);
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(index.find(names[i]), i);
  }
  EXPECT_EQ(index.find("layers.1000.weight"), std::nullopt);
  EXPECT_EQ(index.find(""), std::nullopt);
  EXPECT_EQ(index.duplicate(), std::nullopt);
}

TEST(NameIndexTest, NamesTheEarliestRepetition) {
  const std::vector<std::string_view> names = {"c", "a", "b", "a", "b", "a"};
  const NameIndex index(names);
  EXPECT_EQ(index.duplicate(), std::pair(std::size_t{1}, std::size_t{3}));
  EXPECT_EQ(index.find("a"), 1U);
}

TEST(NameIndexTest, AnEmptyListHoldsNothing) {
  const NameIndex index({});
  EXPECT_EQ(index.find("a"), std::nullopt);
  EXPECT_EQ(index.duplicate(), std::nullopt);
}

}  // namespace
}  // namespace vindex::name_index_test
