// CKA of tiles of layers: both forms and every blocking agree, draws have the law they should,
// plans fit their memory.
#include "cka_fixture.hpp"
#include "cka_plan.hpp"
#include "draw_weights.hpp"

#include <vindex/measure/cka.hpp>
#include <vindex/measure/metrics.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace vindex::run {
namespace {

using testing::equal_groups;
using testing::MemoryDump;
using testing::noise;
using testing::normal;
using testing::OpenedLayers;
using testing::Values;

measure::Backend& backend() {
  static const auto cpu = cpu::make_cpu_backend(1, "");
  return *cpu;
}

CkaPlan plan_of(bool by_rows, std::int64_t rows, std::int64_t slab) {
  CkaPlan plan;
  plan.by_rows = by_rows;
  plan.slab = slab;
  plan.block_rows = by_rows ? rows : slab;
  return plan;
}

TileResult tile_of(const CkaPlan& plan, MemoryDump& a, MemoryDump& b, const TileDraws& draws) {
  const OpenedLayers left(a), right(b);
  std::vector<std::int64_t> next(a.size(), -1);
  for (std::size_t i = 0; i + 1 < a.size(); ++i) {
    next[i] = static_cast<std::int64_t>(i) + 1;
  }
  return measure_tile({backend(), 2}, plan, left.layers(), right.layers(), {}, next, draws);
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

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
  }
}

TEST(CkaTileTest, FormsAndBlocksAgree) {
  const std::int64_t rows = 90;
  MemoryDump a(rows, {noise(rows, 12, 1), related(30, 3, 20, 0, 1, 1.0), noise(rows, 7, 2)});
  MemoryDump b(rows, {related(30, 3, 16, 0, 2, 1.0), noise(rows, 31, 3)});
  std::vector<RowRun> groups = {{0, 11}, {11, 1}, {12, 30}, {42, 7}, {49, 41}};
  const TileDraws draws{groups, 7, 7};
  const TileResult whole = tile_of(plan_of(true, rows, rows), a, b, draws);
  EXPECT_GT(whole.pairs[2].cka, 0.2);
  for (const std::int64_t slab : {17, 64, 90}) {
    const TileResult other = tile_of(plan_of(false, rows, slab), a, b, draws);
    expect_near({other.adjacent[0], other.adjacent[1]}, {whole.adjacent[0], whole.adjacent[1]});
    EXPECT_TRUE(std::isnan(other.adjacent[2]));
    for (std::size_t i = 0; i < whole.pairs.size(); ++i) {
      EXPECT_NEAR(other.pairs[i].cka, whole.pairs[i].cka, 1e-6);
      EXPECT_NEAR(other.pairs[i].biased, whole.pairs[i].biased, 1e-6);
      expect_near(other.pairs[i].permuted, whole.pairs[i].permuted);
      expect_near(other.pairs[i].resampled, whole.pairs[i].resampled);
    }
  }
}

// A permutation of rows leaves no trace in expectation: sums over off-diagonals of U-centred
// matrices are 0. A hundred draws say what a thousand do.
TEST(CkaTileTest, ThePermutationNullIsThatOfAThousandDraws) {
  const std::int64_t rows = 48;
  MemoryDump a(rows, {noise(rows, 10, 11)});
  MemoryDump b(rows, {noise(rows, 10, 12), related(48, 1, 10, 3, 0, 1.0)});
  const std::vector<RowRun> groups = equal_groups(rows, 1);
  const TileResult found = tile_of(plan_of(true, rows, rows), a, b, {groups, 1000, 0});
  for (const TilePair& pair : found.pairs) {
    ASSERT_EQ(pair.permuted.size(), 1000U);
    const double mean = std::accumulate(pair.permuted.begin(), pair.permuted.end(), 0.0) / 1000.0;
    double squares = 0.0;
    for (const double draw : pair.permuted) {
      squares += (draw - mean) * (draw - mean);
    }
    const double deviation = std::sqrt(squares / 999.0);
    EXPECT_LT(std::abs(mean), 4.0 * deviation / std::sqrt(1000.0));
    const measure::DrawnNull all = measure::null_of_draws(pair.permuted, pair.cka);
    const measure::DrawnNull some =
        measure::null_of_draws({pair.permuted.begin(), pair.permuted.begin() + 100}, pair.cka);
    EXPECT_NEAR(some.q95, all.q95, deviation);
    EXPECT_NEAR(some.p, all.p, 0.2);
  }
}

// Of independent layers p is uniform: few are small, few are large.
TEST(CkaTileTest, PIsUniformWithoutRelation) {
  const std::int64_t rows = 40;
  std::vector<Values> left, right;
  for (std::uint64_t i = 0; i < 8; ++i) {
    left.push_back(related(20, 2, 6, 50 + i, 1, 0.0));
    right.push_back(related(20, 2, 6, 80 + i, 2, 0.0));
  }
  MemoryDump a(rows, left), b(rows, right);
  const TileResult found = tile_of(plan_of(true, rows, rows), a, b, {equal_groups(20, 2), 99, 0});
  int small = 0;
  int below_half = 0;
  for (const TilePair& pair : found.pairs) {
    const double p = measure::null_of_draws(pair.permuted, pair.cka).p;
    small += p <= 0.05 ? 1 : 0;
    below_half += p <= 0.5 ? 1 : 0;
  }
  EXPECT_LE(small, 10);  // of 64; 3.2 expected
  EXPECT_NEAR(below_half, 32, 16);
}

// Intervals of the bootstrap over 60 samples of 36 prompts: they hold the mean of the estimates
// about as often as they say, and their draws lie about the estimate. Counting copies of a row as
// other rows would shift them up by several hundredths.
TEST(CkaTileTest, TheBootstrapCoversAndIsNotShifted) {
  constexpr std::int64_t kGroups = 36, kSize = 3;
  constexpr std::uint64_t kSamples = 60;
  for (const double strength : {1.0, 0.35}) {
    std::vector<double> estimates;
    std::vector<measure::DrawnInterval> intervals;
    double shift = 0.0;
    for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
      MemoryDump a(kGroups * kSize, {related(kGroups, kSize, 8, sample, 1, strength)});
      MemoryDump b(kGroups * kSize, {related(kGroups, kSize, 8, sample, 2, strength)});
      const TileResult found = tile_of(plan_of(true, kGroups * kSize, kGroups * kSize), a, b,
                                       {equal_groups(kGroups, kSize), 0, 100});
      const TilePair& pair = found.pairs.front();
      estimates.push_back(pair.cka);
      intervals.push_back(measure::interval_of_draws(pair.resampled));
      shift +=
          std::accumulate(pair.resampled.begin(), pair.resampled.end(), 0.0) / 100.0 - pair.cka;
    }
    const double mean = std::accumulate(estimates.begin(), estimates.end(), 0.0) / double{kSamples};
    int covered = 0;
    for (const measure::DrawnInterval& interval : intervals) {
      covered += interval.low <= mean && mean <= interval.high ? 1 : 0;
    }
    EXPECT_GE(covered, 47) << strength;  // of 60
    EXPECT_LT(std::abs(shift / double{kSamples}), 0.006) << strength;
  }
}

TEST(DrawWeightsTest, PairsOfAGroupCountOncePerCopy) {
  const std::vector<RowRun> groups = {{0, 2}, {2, 1}};
  DrawWeights weights;
  for (std::int64_t draw = 0; weights.of_row != std::vector<float>{2, 2, 0}; ++draw) {
    weights = drawn_weights(groups, draw);
    ASSERT_LT(draw, 100);
  }
  const std::vector<float> block = {0, 3, 5, 3, 0, 7, 5, 7, 0};
  std::vector<float> out(9);
  EXPECT_EQ(weigh_block(block, weights, {0, 3}, {0, 3}, out.data()), 2.0 * 9.0 * 2.0);
  EXPECT_EQ(out, (std::vector<float>{0, 6, 0, 6, 0, 0, 0, 0, 0}));
  weights.of_row = {1, 1, 3};
  const std::vector<float> corner = {5, 7};  // rows 0 and 1 beside row 2
  EXPECT_EQ(weigh_block(corner, weights, {0, 2}, {2, 1}, nullptr), 3.0 * 25.0 + 3.0 * 49.0);
}

TEST(ActivationRowsTest, RowsComeInAnyOrderAndPooled) {
  Values values(12);
  std::iota(values.begin(), values.end(), 0.0F);
  MemoryDump dump(6, {values});
  ActivationRows rows = dump.rows(0);
  std::vector<float> out;
  const std::vector<RowRun> order = {{4, 2}, {0, 1}};
  rows.decode(order, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 10, 11, 0, 1}));
  EXPECT_EQ(cut_runs(order, 1, 2)[0].first, 5);
  EXPECT_EQ(cut_runs(order, 1, 2)[1].count, 1);
  EXPECT_TRUE(cut_runs(order, 3, 2).empty());
  const std::vector<model::PromptRows> prompts = {{7, 3, 3}, {9, 0, 2}};
  const RowRun both{0, 2};
  ActivationRows means = dump.rows(0, prompts, Pooling::kMean);
  EXPECT_EQ(means.rows(), 2);
  means.decode({&both, 1}, out);
  EXPECT_EQ(out, (std::vector<float>{8, 9, 1, 2}));
  ActivationRows last = dump.rows(0, prompts, Pooling::kLast);
  last.decode({&both, 1}, out);
  EXPECT_EQ(out, (std::vector<float>{10, 11, 2, 3}));
}

TEST(LayerSumsTest, MeansAndNormsOfCentredRows) {
  MemoryDump dump(4, {{1, 10, 3, 10, 5, 10, 7, 14}});
  ActivationRows rows = dump.rows(0);
  for (const std::int64_t slab : {1, 3, 4}) {
    const LayerSums sums = layer_sums(rows, slab);
    EXPECT_EQ(sums.means, (std::vector<double>{4, 11}));
    EXPECT_EQ(sums.row_norms, (std::vector<double>{10, 2, 2, 18}));
    EXPECT_EQ(sums.trace, 32.0);
    const std::vector<RowRun> order = {{2, 2}, {0, 2}};
    EXPECT_EQ(norms_product(sums, sums, order), 10.0 * 2 + 2 * 18 + 2 * 10 + 18 * 2);
  }
}

std::uint64_t products_bytes(const measure::InnerProductShape& shape) {
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
                 .resamples = 100};
  EXPECT_TRUE(plan_cka(shape, 2, products_bytes, 8 * kGiB).by_rows);
  shape.rows = 100'000;
  shape.permutations = shape.resamples = 0;
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
                       .permutations = 10};
  const CkaPlan plan = plan_cka(shape, 2, products_bytes, 8 * kGiB);
  EXPECT_NEAR(plan.cost.estimate, 2e5 * 4096.0 * 4096.0, 1e9);  // one product, two triangles
  EXPECT_NEAR(plan.cost.permutations, 1e6 * 4096.0 * 4096.0, 1e9);
  EXPECT_NE(plan_text(shape, plan).find("34 TFLOP for 10 permutations"), std::string::npos)
      << plan_text(shape, plan);
}

}  // namespace
}  // namespace vindex::run
