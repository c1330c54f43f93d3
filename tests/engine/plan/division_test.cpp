// Shares of equal cost: a pure function of costs and places, so its rules are tested on drawn rows.
#include "engine/plan/division.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace vindex::engine::division_test {
namespace {

std::vector<double> loads_of(const std::vector<PlacedRow>& rows,
                             const std::vector<std::int32_t>& shares, std::int32_t count) {
  std::vector<double> loads(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    loads.at(static_cast<std::size_t>(shares[i])) += rows[i].cost;
  }
  return loads;
}

double dearest_of(const std::vector<PlacedRow>& rows) {
  double most = 0.0;
  for (const PlacedRow& row : rows) {
    most = std::max(most, row.cost);
  }
  return most;
}

/// Rows in any order of places, costs over six orders of magnitude.
std::vector<PlacedRow> drawn_rows(std::mt19937_64& random) {
  std::uniform_real_distribution<double> exponent(0.0, 6.0);
  std::vector<PlacedRow> rows(1 + random() % 400);
  for (PlacedRow& row : rows) {
    row = {{static_cast<std::int32_t>(random() % 2), static_cast<std::int32_t>(random() % 7),
            random() % 1000},
           std::pow(10.0, exponent(random))};
  }
  return rows;
}

TEST(Division, EveryRowIsInOneShareAndNoneIsMuchDearerThanTheMean) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 300; ++round) {
    const std::vector<PlacedRow> rows = drawn_rows(random);
    const auto count = static_cast<std::int32_t>(1 + random() % 40);
    const std::vector<std::int32_t> shares = equal_shares(rows, count);
    ASSERT_EQ(shares.size(), rows.size());
    const std::vector<double> loads = loads_of(rows, shares, count);  // throws out of range
    const double total = std::accumulate(loads.begin(), loads.end(), 0.0);
    const auto cuts = std::min<double>(count, static_cast<double>(rows.size()));
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()),
              1.001 * (total / cuts + dearest_of(rows)));
    EXPECT_EQ(equal_shares(rows, count), shares);
  }
}

TEST(Division, AShareIsOneStretchOfWhatIsStored) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 100; ++round) {
    const std::vector<PlacedRow> rows = drawn_rows(random);
    const std::vector<std::int32_t> shares = equal_shares(rows, 5);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < rows.size(); ++j) {
        EXPECT_FALSE(rows[i].place < rows[j].place && shares[i] > shares[j]);
      }
    }
  }
}

TEST(Division, MoreSharesThanRowsLeaveSomeEmpty) {
  const std::vector<PlacedRow> rows = {{{0, 0, 0}, 1.0}, {{0, 0, 8}, 1.0}};
  EXPECT_EQ(equal_shares(rows, 1'000'000), (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(equal_shares({}, 3), std::vector<std::int32_t>{});
  EXPECT_EQ(equal_shares({{{0, 0, 0}, 0.0}, {{0, 0, 8}, 0.0}}, 2),
            (std::vector<std::int32_t>{0, 1}));
}

/// 61 layers of 384 experts with three matrices each, attention beside them, one dense layer, and
/// embeddings that are 11 times dearer, stored layer by layer and within one expert by expert.
std::vector<PlacedRow> shapes_of_a_large_mixture(const MeasureOptions& options) {
  std::vector<PlacedRow> rows;
  const auto add = [&](std::int32_t shard, std::int64_t height, std::int64_t width) {
    rows.push_back({{0, shard, rows.size()}, measuring_cost(height, width, options)});
  };
  add(0, 163840, 7168);
  for (std::int32_t layer = 0; layer < 61; ++layer) {
    for (const auto& [height, width] :
         {std::pair(1536, 7168), {12288, 1536}, {576, 7168}, {16384, 512}, {7168, 8192}}) {
      add(layer, height, width);
    }
    if (layer == 0) {
      for (int i = 0; i < 3; ++i) {
        add(layer, 18432, 7168);
      }
      continue;
    }
    add(layer, 384, 7168);
    for (int expert = 0; expert < 385; ++expert) {
      for (const auto& [height, width] : {std::pair(7168, 2048), {2048, 7168}, {2048, 7168}}) {
        add(layer, height, width);
      }
    }
  }
  add(61, 163840, 7168);
  return rows;
}

TEST(Division, SharesOfALargeMixtureAreEqualAndReadFewFiles) {
  const std::vector<PlacedRow> rows = shapes_of_a_large_mixture({});
  for (const std::int32_t count : {2, 8, 16, 61, 128}) {
    const std::vector<std::int32_t> shares = equal_shares(rows, count);
    const std::vector<double> loads = loads_of(rows, shares, count);
    const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / count;
    const double worst = *std::max_element(loads.begin(), loads.end()) / mean;
    // What is no expert is 30 times an expert's cost at most: 1 in 2,300 of all.
    EXPECT_LT(worst, 1.0 + 0.0005 * count) << count;
    std::map<std::int32_t, std::set<std::int32_t>> files;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      files[shares[i]].insert(rows[i].place.shard);
    }
    for (const auto& [share, shards] : files) {
      EXPECT_LE(shards.size(), static_cast<std::size_t>(62 / count + 2)) << count;
    }
    RecordProperty("worst_of_" + std::to_string(count), std::to_string(worst));
  }
}

TEST(Division, KindsAreKeptApartWhereSharesMeet) {
  std::vector<RowWork> works;
  for (std::int64_t row = 0; row < 6; ++row) {
    RowWork work;
    work.row = row;
    work.kind = row == 5 ? 0 : 1 + static_cast<std::uint64_t>(row) / 4;
    works.push_back(work);
  }
  keep_shares_apart(works, {1, 0, 1, 0, 1, 0});
  std::vector<std::int64_t> order;
  std::map<std::uint64_t, std::set<std::int64_t>> of_kind;
  for (const RowWork& work : works) {
    order.push_back(work.row);
    of_kind[work.kind].insert(work.row);
  }
  EXPECT_EQ(order, (std::vector<std::int64_t>{1, 3, 5, 0, 2, 4}));
  EXPECT_EQ(of_kind[0], std::set<std::int64_t>{5}) << "alone stays alone";
  EXPECT_EQ(of_kind.size(), 4U);
  EXPECT_EQ(of_kind[1], (std::set<std::int64_t>{1, 3}));
}

TEST(Division, ClaimedSharesAreFewAndSomeEvenOfOneRow) {
  const auto shares = [](std::size_t rows, double cost, std::uint64_t bytes) {
    RowWork work;
    work.cost = cost;
    work.read_bytes = bytes;
    return claimed_shares(std::vector<RowWork>(rows, work), rows);
  };
  EXPECT_EQ(shares(1, 1e12, 1 << 30), 2);
  EXPECT_EQ(shares(100, 1e10, 0), 100);
  EXPECT_EQ(shares(69'120, 1e10, 1 << 24), 512);
  // Where the work of a row is less than claiming it, shares have many; by bytes alone too.
  EXPECT_EQ(shares(291, 1e5, 6144), 8);
  EXPECT_EQ(shares(291, 1e8, 6144), 14);
  EXPECT_EQ(shares(300, 1e5, 32 << 20), 150);
  EXPECT_EQ(shares(3, 1e5, 6144), 3);
}

}  // namespace
}  // namespace vindex::engine::division_test
