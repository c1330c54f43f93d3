// CKA of tiles of layers: both forms agree, with each other and with samples that lack a prompt,
// plans fit their memory.
#include "statistics/cka/cka.hpp"

#include "cka_fixture.hpp"

#include "commands/cka/cka_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace vindex::commands::cka_test {
namespace {

using testing::backend;
using testing::equal_groups;
using testing::MemoryDump;
using testing::noise;
using testing::normal;
using testing::tile_of;
using testing::Values;

CkaPlan plan_of(bool by_rows, std::int64_t slab) {
  CkaPlan plan;
  plan.by_rows = by_rows;
  plan.slab = slab;
  return plan;
}

/// `rows` rows that share 3 numbers each with those of every other layer of the same `sample`;
/// rows of a group share half of everything.
Values related(std::int64_t groups, std::int64_t size, std::int64_t cols, std::uint64_t sample,
               std::uint64_t layer, double strength) {
  const std::uint64_t common = 1000 + sample;
  const std::uint64_t own = 1'000'000 * (layer + 1) + sample;
  Values out;
  for (std::int64_t row = 0; row < groups * size; ++row) {
    const auto i = static_cast<std::uint64_t>(row);
    const auto group = static_cast<std::uint64_t>(row / size) + (std::uint64_t{1} << 40U);
    const auto draw = [&](std::uint64_t key, std::uint64_t k) {
      return std::sqrt(0.5) * (normal(key, 64 * i + k) + normal(key, 64 * group + k));
    };
    for (std::int64_t j = 0; j < cols; ++j) {
      double value = std::sqrt(2.0) * draw(own, static_cast<std::uint64_t>(j));
      for (std::uint64_t k = 0; k < 3; ++k) {
        value +=
            strength * normal(7 + layer, 3 * static_cast<std::uint64_t>(j) + k) * draw(common, k);
      }
      out.push_back(static_cast<float>(value));
    }
  }
  return out;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                 double bound = 1e-6) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], bound) << i;
  }
}

void expect_near(const Estimate& found, const Estimate& wanted) {
  EXPECT_NEAR(found.cka, wanted.cka, 1e-6);
  expect_near(found.without, wanted.without, 3e-6);
}

TEST(CkaTileTest, FormsAndBlocksAgree) {
  const std::int64_t rows = 90;
  MemoryDump a(rows, {noise(rows, 12, 1), related(30, 3, 20, 0, 1, 1.0), noise(rows, 7, 2)});
  MemoryDump b(rows, {related(30, 3, 16, 0, 2, 1.0), noise(rows, 31, 3)});
  const std::vector<engine::RowRun> groups = {{0, 11}, {11, 1},  {12, 30},
                                              {42, 7}, {49, 11}, {60, 30}};
  const statistics::Strata strata = {{0, 4}, {2, 5}};
  const TileDraws draws{groups, &strata, 7, true};
  const TileResult whole = tile_of(plan_of(true, rows), a, b, draws);
  EXPECT_GT(whole.pairs[2].estimate.cka, 0.2);
  for (const std::int64_t slab : {17, 64, 90}) {
    const TileResult other = tile_of(plan_of(false, slab), a, b, draws);
    expect_near(other.adjacent[0], whole.adjacent[0]);
    expect_near(other.adjacent[1], whole.adjacent[1]);
    EXPECT_TRUE(std::isnan(other.adjacent[2].cka));
    for (std::size_t i = 0; i < whole.pairs.size(); ++i) {
      expect_near(other.pairs[i].estimate, whole.pairs[i].estimate);
      EXPECT_NEAR(other.pairs[i].biased, whole.pairs[i].biased, 1e-6);
      expect_near(other.pairs[i].permuted, whole.pairs[i].permuted);
    }
  }
}

/// The rows that are not of `group`.
Values without(const Values& values, std::int64_t cols, engine::RowRun group) {
  Values out(values.begin(), values.begin() + group.first * cols);
  out.insert(out.end(), values.begin() + (group.first + group.count) * cols, values.end());
  return out;
}

// What is left is compared anew: prompts of one row and of many, one that lies in several pieces
// of the form of features.
TEST(CkaTileTest, EstimatesWithoutAGroupAreThoseOfTheRest) {
  constexpr std::int64_t kRows = 620;
  const std::vector<engine::RowRun> groups = {{0, 1},  {1, 3},    {4, 40},
                                              {44, 1}, {45, 560}, {605, 15}};
  const Values x = related(kRows, 1, 9, 5, 1, 1.0);
  const Values y = related(kRows, 1, 6, 5, 2, 1.0);
  MemoryDump a(kRows, {x}), b(kRows, {y});
  const TileResult by_rows = tile_of(plan_of(true, kRows), a, b, {groups, nullptr, 0, true});
  const TileResult by_features = tile_of(plan_of(false, 100), a, b, {groups, nullptr, 0, true});
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::int64_t left = kRows - groups[g].count;
    MemoryDump a_left(left, {without(x, 9, groups[g])}), b_left(left, {without(y, 6, groups[g])});
    const double wanted = tile_of(plan_of(true, left), a_left, b_left, {groups, nullptr, 0, false})
                              .pairs.front()
                              .estimate.cka;
    EXPECT_NEAR(by_rows.pairs.front().estimate.without[g], wanted, 2e-6) << g;
    EXPECT_NEAR(by_features.pairs.front().estimate.without[g], wanted, 2e-6) << g;
  }
}

// A feature that only one row has is additive: off the diagonal nothing is left of its kernel but
// rounding, and so no alignment.
TEST(CkaTileTest, LayersWithoutAKernelHaveNoAlignment) {
  constexpr std::int64_t kRows = 200;
  Values one(kRows * 3, 2.5F);
  one[30] = 1000.0F;
  MemoryDump a(kRows, {Values(kRows * 2, 0.1F), one, noise(kRows, 5, 3)});
  MemoryDump b(kRows, {noise(kRows, 4, 1)});
  for (const bool by_rows : {true, false}) {
    const TileResult found =
        tile_of(plan_of(by_rows, 64), a, b, {equal_groups(20, 10), nullptr, 0, true});
    for (const std::size_t layer : {0U, 1U}) {
      EXPECT_TRUE(std::isnan(found.pairs[layer].estimate.cka)) << by_rows << layer;
      EXPECT_TRUE(std::isnan(found.pairs[layer].biased)) << by_rows << layer;
      EXPECT_TRUE(std::isnan(found.adjacent[layer].cka)) << by_rows << layer;
    }
    EXPECT_FALSE(std::isnan(found.pairs[2].estimate.cka));
  }
}

TEST(ActivationRowsTest, RowsComeInAnyOrderAndPooled) {
  Values values(12);
  std::iota(values.begin(), values.end(), 0.0F);
  MemoryDump dump(6, {values});
  engine::ActivationRows rows = dump.rows(0);
  std::vector<float> out;
  const std::vector<engine::RowRun> order = {{4, 2}, {0, 1}};
  rows.decode(order, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 11, 0, 1}));
  EXPECT_EQ(engine::cut_runs(order, 1, 2)[0].first, 5);
  EXPECT_EQ(engine::cut_runs(order, 1, 2)[1].count, 1);
  EXPECT_TRUE(engine::cut_runs(order, 3, 2).empty());
  const std::vector<model::PromptRows> prompts = {{7, 3, 3}, {9, 0, 2}};
  const engine::RowRun both{0, 2};
  engine::ActivationRows means = dump.rows(0, prompts, engine::Pooling::kMean);
  EXPECT_EQ(means.rows(), 2);
  means.decode({&both, 1}, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 1, 2}));
  engine::ActivationRows last = dump.rows(0, prompts, engine::Pooling::kLast);
  last.decode({&both, 1}, out);
  EXPECT_EQ(out, (std::vector<float>{10, 11, 2, 3}));
}

TEST(LayerSumsTest, MeansAndNormsOfCentredRows) {
  MemoryDump dump(4, {{1, 10, 3, 10, 5, 10, 7, 14}});
  engine::ActivationRows rows = dump.rows(0);
  for (const std::int64_t slab : {1, 3, 4}) {
    const LayerSums sums = layer_sums(rows, slab);
    EXPECT_EQ(sums.means, (std::vector<double>{4, 11}));
    EXPECT_EQ(sums.row_norms, (std::vector<double>{10, 2, 2, 18}));
    EXPECT_EQ(sums.trace, 32.0);
    const std::vector<engine::RowRun> order = {{2, 2}, {0, 2}};
    EXPECT_EQ(norms_product(sums, sums, order), 10.0 * 2 + 2 * 18 + 2 * 10 + 18 * 2);
  }
}

// Where one prompt has all the variation, nothing is left without it, whatever rounding says.
TEST(CkaTileTest, WithoutTheOnlyVariationThereIsNoError) {
  constexpr std::int64_t kRows = 24;
  Values x(kRows * 5, 0.1F);
  for (std::size_t i = 40; i < 60; ++i) {
    x[i] = static_cast<float>(normal(9, i));
  }
  MemoryDump a(kRows, {x}), b(kRows, {noise(kRows, 4, 1)});
  for (const bool by_rows : {true, false}) {
    const Estimate found =
        tile_of(plan_of(by_rows, 64), a, b, {equal_groups(6, 4), nullptr, 0, true})
            .pairs.front()
            .estimate;
    EXPECT_FALSE(std::isnan(found.cka)) << by_rows;
    for (std::size_t g = 0; g < 6; ++g) {
      EXPECT_EQ(std::isnan(found.without[g]), g == 2) << by_rows << g;
    }
  }
}

// CKA knows no scale: activations that square beyond float32, and below it.
TEST(CkaTileTest, ScalesDoNotCount) {
  constexpr std::int64_t kRows = 60;
  const Values x = related(20, 3, 9, 5, 1, 1.0);
  const Values y = related(20, 3, 6, 5, 2, 1.0);
  for (const bool by_rows : {true, false}) {
    const auto measured = [&](float by) {
      Values scaled = x;
      std::for_each(scaled.begin(), scaled.end(), [&](float& value) { value *= by; });
      MemoryDump a(kRows, {scaled}), b(kRows, {y});
      const statistics::Strata strata = {{0, 1, 2, 3, 4, 5}};
      return tile_of(plan_of(by_rows, 20), a, b, {equal_groups(20, 3), &strata, 3, true})
          .pairs.front();
    };
    const TilePair plain = measured(1.0F);
    for (const float by : {0x1p100F, 0x1p-100F}) {
      const TilePair scaled = measured(by);
      expect_near(scaled.estimate, plain.estimate);
      EXPECT_NEAR(scaled.biased, plain.biased, 1e-6);
      expect_near(scaled.permuted, plain.permuted);
    }
  }
}

std::uint64_t products_bytes(const InnerProductShape& shape) {
  return backend().inner_product_memory(shape).host;
}

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

TEST(CkaPlanTest, FewRowsTakeGramMatricesAndManyTakeFeatures) {
  CkaShape shape{.rows = 256,
                 .layers_a = 26,
                 .layers_b = 36,
                 .width_a = 2048,
                 .width_b = 4096,
                 .permutations = 100,
                 .groups = 256};
  EXPECT_TRUE(plan_cka(shape, 2, products_bytes, 8 * kGiB).by_rows);
  shape.rows = 100'000;
  shape.permutations = 0;
  shape.group_pairs = 256 * 390 * 390;
  const CkaPlan many = plan_cka(shape, 2, products_bytes, 8 * kGiB);
  EXPECT_FALSE(many.by_rows);
  EXPECT_LE(many.memory_bytes, 8 * kGiB);
  // Cheaper by Gram matrices, which do not fit.
  shape.rows = 20'000;
  shape.permutations = 100;
  EXPECT_FALSE(plan_cka(shape, 2, products_bytes, kGiB).by_rows);
  EXPECT_TRUE(plan_cka(shape, 2, products_bytes, 60 * kGiB).by_rows);
}

TEST(CkaPlanTest, MoreMemoryReadsLess) {
  const CkaShape shape{
      .rows = 100'000, .layers_a = 26, .layers_b = 36, .width_a = 2048, .width_b = 4096};
  std::int64_t last = 1;
  for (const std::uint64_t gib : {2, 4, 8, 16, 32, 64}) {
    const CkaPlan plan = plan_cka(shape, 2, products_bytes, gib * kGiB);
    EXPECT_LE(plan.memory_bytes, gib * kGiB);
    EXPECT_GE(plan.tile_a * plan.tile_b, last);
    last = plan.tile_a * plan.tile_b;
  }
  EXPECT_GT(last, 100);
  const CkaPlan least = plan_cka(shape, 2, products_bytes, 1);
  EXPECT_EQ(least.tile_a * least.tile_b, 1);
  EXPECT_GT(least.memory_bytes, 1U);
}

TEST(CkaPlanTest, ThePlanSaysWhatDrawsCost) {
  const CkaShape shape{.rows = 100'000,
                       .layers_a = 1,
                       .layers_b = 1,
                       .width_a = 4096,
                       .width_b = 4096,
                       .permutations = 10,
                       .groups = 256,
                       .group_pairs = 256 * 390 * 390};
  const CkaPlan plan = plan_cka(shape, 2, products_bytes, 8 * kGiB);
  EXPECT_NEAR(plan.cost.estimate, 2e5 * 4096.0 * 4096.0, 1e9);  // one product, two triangles
  EXPECT_NEAR(plan.cost.permutations, 1e6 * 4096.0 * 4096.0, 1e9);
  // A product with the rows, for the pair and for each layer with itself; rows of a prompt.
  EXPECT_NEAR(plan.cost.jackknife, (1.00256 * 3e5 + 256 * 390 * 390 / 4096.0) * 4096.0 * 4096.0,
              1e9);
  EXPECT_NE(plan_text(shape, plan).find("34 TFLOP for 10 permutations"), std::string::npos)
      << plan_text(shape, plan);
}

}  // namespace
}  // namespace vindex::commands::cka_test
