// Nulls of products against Monte Carlo of whole matrices by another generator.
#include "cpu/product/product_nulls.hpp"

#include "product_fixture.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>

namespace vindex::cpu::product_nulls_test {
namespace {

constexpr statistics::Metric kCompared[] = {
    statistics::Metric::kRank90,          statistics::Metric::kRank95,
    statistics::Metric::kRank99,          statistics::Metric::kParticipationRatio,
    statistics::Metric::kEffectiveRank,   statistics::Metric::kEffectiveRankSigma,
    statistics::Metric::kSpectralEntropy, statistics::Metric::kHillAlpha,
    statistics::Metric::kTraceLog,        statistics::Metric::kGini,
    statistics::Metric::kConditionNumber, statistics::Metric::kStableRank};

struct Mean {
  double sum = 0.0, squares = 0.0;
  int count = 0;
  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double mean() const { return sum / count; }
  double error() const { return std::sqrt((squares / count - mean() * mean()) / (count - 1)); }
};

TEST(ProductNullTest, AgreesWithWholeMatricesOfNoise) {
  std::mt19937_64 random(11);
  for (const std::vector<std::int64_t>& sides : std::vector<std::vector<std::int64_t>>{
           {96, 16, 64}, {48, 32, 40}, {20, 64, 90}, {90, 40, 24, 30, 70}, {60, 48, 18}}) {
    const statistics::MetricValues null = product_null_metrics(sides);
    constexpr int kDraws = 400;
    std::vector<Mean> var(kVarAtK.size()), scalar(statistics::kMetricCount);
    for (int draw = 0; draw < kDraws; ++draw) {
      // The product itself, formed and taken as one factor.
      const std::vector<Factor> product = {formed(noise_chain(sides, random))};
      const std::int64_t rank = product_rank(sides);
      MatrixReport report = product_spectrum(pointers(product), 1.0);
      report.sigma.resize(static_cast<std::size_t>(rank));
      std::string unused;
      const statistics::MetricValues values =
          derive_product_metrics(sides.front(), sides.back(), rank, report, unused);
      for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
        var[i].add(values.var_at_k[i]);
      }
      for (const statistics::Metric metric : kCompared) {
        scalar[static_cast<std::size_t>(metric)].add(values[metric]);
      }
    }
    EXPECT_GT(null[statistics::Metric::kStableRank], 1.0 / null.var_at_k[0])
        << "the mean of the metric, not the metric of a mean";
    // stable_rank is 1/var_at_1: over the same draws the product of both means exceeds 1 by their
    // scatter alone, which 400 draws know to about a tenth. It tells the two means apart where
    // either of them alone does not.
    const double excess =
        scalar[static_cast<std::size_t>(statistics::Metric::kStableRank)].mean() * var[0].mean() -
        1.0;
    EXPECT_NEAR(null[statistics::Metric::kStableRank] * null.var_at_k[0] - 1.0, excess,
                0.4 * excess)
        << sides[0] << "x" << sides[1];
    for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
      EXPECT_NEAR(null.var_at_k[i], var[i].mean(),
                  0.003 * var[i].mean() + 4.0 * var[i].error() + 1e-12)
          << sides[0] << "x" << sides[1] << " k = " << kVarAtK[i];
    }
    for (const statistics::Metric metric : kCompared) {
      const Mean& mean = scalar[static_cast<std::size_t>(metric)];
      EXPECT_NEAR(null[metric], mean.mean(), 0.003 * std::abs(mean.mean()) + 4.0 * mean.error())
          << sides[0] << "x" << sides[1] << " "
          << statistics::metric_rows()[static_cast<std::size_t>(metric)].name;
    }
    EXPECT_EQ(null[statistics::Metric::kNumericalRank], static_cast<double>(product_rank(sides)));
    EXPECT_TRUE(std::isnan(null[statistics::Metric::kSpectralNorm]));
  }
}

// A long chain of wide factors adds nothing: the wide factor's triangle is near to a multiple of
// the identity.
TEST(ProductNullTest, AWideFactorLeavesTheOtherOnesLaw) {
  const statistics::MetricValues product =
      product_null_metrics(std::vector<std::int64_t>{100'000'000, 48, 96});
  const statistics::MetricValues single = product_null_metrics(std::vector<std::int64_t>{48, 96});
  EXPECT_NEAR(product[statistics::Metric::kEffectiveRank],
              single[statistics::Metric::kEffectiveRank], 0.02);
  EXPECT_NEAR(product.var_at_k[0], single.var_at_k[0], 0.001);
}

TEST(ProductNullTest, IsTheSameEveryTimeAndInEitherDirection) {
  ProductNullCache cache;
  const std::vector<std::int64_t> sides = {64, 8, 40};
  const double first = product_null_metrics(sides).var_at_k[0];
  std::vector<double> seen(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      seen[i] = cache.of(i % 2 == 0 ? sides : std::vector<std::int64_t>{40, 8, 64}).var_at_k[0];
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const double value : seen) {
    EXPECT_EQ(value, seen[0]);
    EXPECT_NEAR(value, first, 0.003 * first);
  }
}

TEST(ProductNullTest, RankOneIsExact) {
  const statistics::MetricValues null = product_null_metrics(std::vector<std::int64_t>{7, 1, 9});
  EXPECT_EQ(null.var_at_k[0], 1.0);
  EXPECT_NEAR(null[statistics::Metric::kStableRank], 1.0, 1e-12);
  EXPECT_TRUE(std::isnan(null[statistics::Metric::kHillAlpha]));
}

TEST(ProductNullTest, NoConditionNumberWhereASecondSideIsTheLeast) {
  const statistics::MetricValues null = product_null_metrics(std::vector<std::int64_t>{16, 16, 40});
  EXPECT_TRUE(std::isnan(null[statistics::Metric::kConditionNumber]));
  EXPECT_FALSE(std::isnan(null[statistics::Metric::kEffectiveRank]));
}

}  // namespace
}  // namespace vindex::cpu::product_nulls_test
