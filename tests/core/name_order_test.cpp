// Orders of names and of the records behind them, against the standard library's.
#include "core/text/name_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace vindex::name_order_test {
namespace {

/// Names with long beginnings in common, repetitions, zeros and bytes beyond ASCII.
std::vector<std::string> names_of(std::uint32_t seed, std::size_t count) {
  std::mt19937 random(seed);
  const std::string letters("ab\0\xFF.", 5);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    std::string name(random() % 3 == 0 ? 0 : random() % 20, 'x');
    for (std::size_t left = random() % 12; left > 0; --left) {
      name += letters[random() % letters.size()];
    }
    names.push_back(std::move(name));
  }
  return names;
}

TEST(NameOrderTest, IsThatOfAStableSort) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    const std::vector<std::string> names = names_of(seed, 1 + 25 * seed);
    const std::vector<std::string_view> views(names.begin(), names.end());
    std::vector<std::uint32_t> expected(names.size());
    std::iota(expected.begin(), expected.end(), 0U);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return names[a] < names[b]; });
    EXPECT_EQ(name_order(views), expected) << seed;
  }
  EXPECT_TRUE(name_order({}).empty());
}

// As deep as names can make it: those that begin with each other, and those that depart from long
// equal ones a little later each.
TEST(NameOrderTest, NamesThatBeginWithEachOther) {
  std::vector<std::string> names;
  for (std::size_t length = 0; length < 3000; ++length) {
    names.emplace_back(2999 - length, 'a');
  }
  std::vector<std::string> late(400, std::string(4000, 'a'));
  for (std::size_t i = 0; i < late.size(); ++i) {
    late[i][10 * i] = 'b';
  }
  const std::vector<std::string_view> late_views(late.begin(), late.end());
  const std::vector<std::uint32_t> late_order = name_order(late_views);
  for (std::size_t i = 0; i < late_order.size(); ++i) {
    EXPECT_EQ(late_order[i], 399 - i);
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::vector<std::uint32_t> order = name_order(views);
  for (std::size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(order[i], 2999 - i);
  }
}

TEST(ReorderTest, EveryRecordGoesWhereTheOrderSays) {
  std::mt19937 random(1);
  for (std::size_t count = 0; count < 50; ++count) {
    std::vector<std::uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0U);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::unique_ptr<std::uint32_t>> records;  // cannot be copied
    for (std::uint32_t i = 0; i < count; ++i) {
      records.push_back(std::make_unique<std::uint32_t>(i));
    }
    reorder(records.begin(), order);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_NE(records[i], nullptr);
      EXPECT_EQ(*records[i], order[i]);
    }
  }
}

TEST(NameIndexTest, FindsWhatAMapFinds) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<std::string> names = names_of(seed, 10 + 40 * seed);
    const std::vector<std::string_view> views(names.begin(), names.end());
    const NameIndex index(views);
    std::map<std::string_view, std::size_t> first;
    std::optional<std::pair<std::size_t, std::size_t>> twice;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto [at, is_new] = first.try_emplace(views[i], i);
      if (!is_new && !twice) {
        twice.emplace(at->second, i);
      }
    }
    for (const std::string& name : names_of(seed + 100, 300)) {
      const auto found = first.find(name);
      EXPECT_EQ(index.find(name),
                found == first.end() ? std::nullopt : std::optional(found->second));
    }
    ASSERT_EQ(index.duplicate().has_value(), twice.has_value());
    if (twice) {
      EXPECT_EQ(index.duplicate()->second, twice->second);
      EXPECT_EQ(names[index.duplicate()->first], names[twice->first]);
    }
  }
}

// Forwards, backwards, several listings in turn, at random, and names that are not there.
TEST(NameFollowerTest, FindsWhatTheIndexFindsInAnyOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 900; ++i) {
    names.push_back("layers." + std::to_string(i) + ".weight");
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const NameIndex index(views);
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < 300; ++i) {
    asked.insert(asked.end(), {i, 300 + i, 899 - i, 3 * i, 3 * i});
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    asked.push_back(random() % 1000);
  }
  NameFollower follower(index);
  for (const std::size_t i : asked) {
    const std::string name = "layers." + std::to_string(i) + ".weight";
    ASSERT_EQ(follower.find(name), index.find(name)) << name;
  }
}

}  // namespace
}  // namespace vindex::name_order_test
