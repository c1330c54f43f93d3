// The best of many, beside a sort of all of them, and cosines beside their definition.
#include "commands/lookup/features/lookup_features.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <tuple>
#include <vector>

namespace vindex::commands::top_k_test {
namespace {

using Item = TopK::Item;

/// Keys repeat, so that matrix and number decide.
std::vector<Item> items(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Item> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back({.key = static_cast<double>(random() % 20),
                   .matrix = static_cast<std::int64_t>(random() % 3),
                   .number = static_cast<std::int64_t>(i),
                   .score = static_cast<double>(i),
                   .norm = 1.0});
  }
  return out;
}

std::vector<std::int64_t> numbers(const std::vector<Item>& some) {
  std::vector<std::int64_t> out;
  for (const Item& item : some) {
    out.push_back(item.number);
  }
  return out;
}

/// The numbers of the first `most` of all, sorted.
std::vector<std::int64_t> sorted(std::vector<Item> all, std::size_t most) {
  std::sort(all.begin(), all.end(), [](const Item& a, const Item& b) {
    return std::tuple(-a.key, a.matrix, a.number) < std::tuple(-b.key, b.matrix, b.number);
  });
  all.resize(std::min(most, all.size()));
  return numbers(all);
}

TEST(TopK, KeepsTheFirstOfASortInAnyOrderOfOffers) {
  std::mt19937 random(7);
  std::vector<Item> all = items(300, 1);
  for (const std::int64_t most : {0, 1, 5, 299, 300, 1000}) {
    const auto wanted = sorted(all, static_cast<std::size_t>(most));
    for (int order = 0; order < 4; ++order) {
      std::shuffle(all.begin(), all.end(), random);
      TopK best(most);
      for (const Item& item : all) {
        best.offer(item);
      }
      EXPECT_EQ(numbers(best.items()), wanted) << most;
    }
  }
}

TEST(TopK, ListsOfPartsMergeToTheListOfAll) {
  const std::vector<Item> all = items(200, 2);
  TopK whole(20), first(20), second(20);
  for (std::size_t i = 0; i < all.size(); ++i) {
    whole.offer(all[i]);
    (i % 3 == 0 ? first : second).offer(all[i]);
  }
  first.merge(second);
  EXPECT_EQ(numbers(first.items()), numbers(whole.items()));
}

TEST(TopK, AKeyThatCannotGetInIsKnownBefore) {
  TopK best(2);
  EXPECT_TRUE(best.may_take(-1e300));
  best.offer({.key = 3.0, .number = 1});
  best.offer({.key = 2.0, .number = 2});
  EXPECT_FALSE(best.may_take(std::nextafter(2.0, 0.0)));
  EXPECT_TRUE(best.may_take(2.0)) << "a smaller number of the same key is before it";
  best.offer({.key = 2.0, .number = 0});
  EXPECT_EQ(numbers(best.items()), (std::vector<std::int64_t>{1, 0}));
}

TEST(CosineOf, IsThatOfFloat64AndNothingWithoutADirection) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> a(57), b(57);
  long double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = normal(random);
    b[i] = normal(random) + a[i];
    ab += static_cast<long double>(a[i]) * b[i];
    aa += static_cast<long double>(a[i]) * a[i];
    bb += static_cast<long double>(b[i]) * b[i];
  }
  EXPECT_NEAR(cosine_of(a, b), static_cast<double>(ab / std::sqrt(aa * bb)), 1e-15);
  EXPECT_EQ(cosine_of(a, a), 1.0);
  const std::vector<float> zero(57, 0.0F), shorter(56, 1.0F);
  std::vector<float> broken = b;
  broken[5] = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& other : {zero, shorter, broken}) {
    EXPECT_TRUE(std::isnan(cosine_of(a, other)));
  }
}

TEST(Writable, AreColumnsOfTheWidthThatAreFinite) {
  std::vector<float> column(8, 1.0F);
  EXPECT_TRUE(is_writable(column, 8));
  EXPECT_FALSE(is_writable(column, 9));
  column[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(is_writable(column, 8));
}

TEST(ListNames, SayTheSignOrTheOrder) {
  EXPECT_EQ(list_name(LookupOrder::kApart, 0), "positive");
  EXPECT_EQ(list_name(LookupOrder::kApart, 1), "negative");
  EXPECT_EQ(list_name(LookupOrder::kNegative, 0), "negative");
  EXPECT_EQ(list_name(LookupOrder::kCosine, 0), "cosine");
  EXPECT_EQ(list_name(LookupOrder::kScore, 0), "score");
}

}  // namespace
}  // namespace vindex::commands::top_k_test
