// Statistics of activations by hand, and their nulls beside draws.
#include "statistics/activations/activation_statistics.hpp"

#include "statistics/activations/activation_nulls.hpp"
#include "statistics/samples/random_draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

namespace vindex::statistics::activation_statistics_test {
namespace {

struct Both {
  ActivationTotals totals;
  ActivationSpread spread;
};

Both read_twice(const std::vector<float>& values, std::int64_t neurons) {
  ActivationTotals totals(neurons);
  totals.add(values);
  ActivationSpread spread(totals);
  spread.add(values);
  return {std::move(totals), std::move(spread)};
}

// Two tokens of four neurons: sums of squares 25 + 9 = 34 over 8 values.
TEST(ActivationStatistics, TwoTokensByHand) {
  const auto [totals, spread] = read_twice({3.0F, -4.0F, 0.0F, 0.0F, 3.0F, 0.0F, 0.0F, 0.002F}, 4);
  EXPECT_EQ(totals.tokens(), 2);
  EXPECT_NEAR(totals.mean_square(), 34.000004 / 8.0, 1e-7);
  EXPECT_EQ(totals.dead_neurons(), 2);  // one of zeros, one of 0.002 <= 0.001 rms
  const auto sparsity = spread.sparsity();
  EXPECT_EQ(sparsity[0], 5.0 / 8.0);
  EXPECT_EQ(sparsity[2], 5.0 / 8.0);
  // Neurons' variances: 0, 4, 0, 1e-6.
  EXPECT_NEAR(spread.neuron_variance(), (4.0 + 1e-6) / 4.0, 1e-9);
  const double root = std::sqrt(8.0);
  EXPECT_NEAR(totals.hoyer(), (root - 10.002 / std::sqrt(34.000004)) / (root - 1.0), 1e-7);
  EXPECT_NEAR(totals.hoyer_token(), 0.5 * ((2.0 - 7.0 / 5.0) + (2.0 - 3.002 / 3.0000007)), 1e-5);
}

TEST(ActivationStatistics, KurtosisOfTwoValuesIsOne) {
  EXPECT_NEAR(read_twice({1.0F, -1.0F, -1.0F, 1.0F}, 2).spread.kurtosis(), 1.0, 1e-15);
  EXPECT_TRUE(std::isnan(read_twice({2.0F, 2.0F}, 1).spread.kurtosis()));
}

TEST(ActivationStatistics, ZerosAloneAreSparseAndHaveNoShape) {
  const auto [totals, spread] = read_twice(std::vector<float>(12, 0.0F), 3);
  EXPECT_EQ(spread.sparsity()[0], 1.0);
  EXPECT_EQ(totals.dead_neurons(), 3);
  EXPECT_TRUE(std::isnan(totals.hoyer()));
  EXPECT_TRUE(std::isnan(totals.hoyer_token()));
}

TEST(ActivationStatistics, PiecesDoNotChangeBits) {
  DrawStream draws(3);
  std::vector<float> values(60 * 17);
  for (float& value : values) {
    value = static_cast<float>(draws.normal() * draws.normal());
  }
  const Both whole = read_twice(values, 17);
  ActivationTotals totals(17);
  const std::span<const float> all(values);
  for (const std::size_t first : {0, 10, 11, 40}) {
    const std::size_t last = first == 0 ? 10 : (first == 10 ? 11 : (first == 11 ? 40 : 60));
    totals.add(all.subspan(first * 17, (last - first) * 17));
  }
  ActivationSpread spread(totals);
  spread.add(all.first(17 * 33));
  spread.add(all.subspan(17 * 33));
  EXPECT_EQ(totals.hoyer(), whole.totals.hoyer());
  EXPECT_EQ(spread.kurtosis(), whole.spread.kurtosis());
  EXPECT_EQ(spread.neuron_variance(), whole.spread.neuron_variance());
}

TEST(ActivationStatistics, NotFiniteIsSeen) {
  EXPECT_FALSE(read_twice({1.0F, std::numeric_limits<float>::quiet_NaN()}, 2).totals.is_finite());
  EXPECT_FALSE(read_twice({1.0F, std::numeric_limits<float>::infinity()}, 2).totals.is_finite());
  EXPECT_TRUE(read_twice({1.0F, 3e38F}, 2).totals.is_finite());
}

// Independent of the quadrature: the integral of K0 from 0 to t by its series around 0,
// K0(u) = sum (u^2/4)^k / (k!)^2 (psi(k+1) - ln(u/2)).
double product_share_by_series(double t) {
  double sum = 0.0;
  double factor = 1.0;  // (1/4)^k / (k!)^2
  double psi = -std::numbers::egamma;
  for (int k = 0; k < 30; ++k) {
    const double power = 2.0 * k + 1.0;
    const double integral = std::pow(t, power) / power;
    sum += factor * (integral * (psi - std::log(t / 2.0)) + integral / power);
    factor /= 4.0 * (k + 1.0) * (k + 1.0);
    psi += 1.0 / (k + 1.0);
  }
  return 2.0 / std::numbers::pi * sum;
}

TEST(ActivationNulls, ShareOfProductsIsThatOfTheSeries) {
  for (const double t : {1e-6, 0.001, 0.01, 0.1, 1.0, 3.0}) {
    EXPECT_NEAR(share_near_zero(ActivationLaw::kProduct, t), product_share_by_series(t),
                1e-12 + 1e-10 * t);
  }
  EXPECT_NEAR(share_near_zero(ActivationLaw::kProduct, 60.0), 1.0, 1e-12);
  EXPECT_NEAR(share_near_zero(ActivationLaw::kGaussian, 1.0), 0.6826894921370859, 1e-14);
}

// Few tokens of few neurons, where the first order in their number is off by per cents: 0.65 % of
// hoyer_token at 64 neurons.
TEST(ActivationNulls, AgreeWithDraws) {
  constexpr std::int64_t kTokens = 20;
  constexpr int kDraws = 1500;
  for (const ActivationLaw law : {ActivationLaw::kProduct, ActivationLaw::kGaussian}) {
    for (const std::int64_t neurons : {8, 64}) {
      const ActivationNulls nulls = activation_nulls(law, kTokens, neurons);
      std::array<double, 3> sparsity = {};
      double hoyer = 0.0, hoyer_token = 0.0, variance = 0.0, kurtosis = 0.0;
      DrawStream draws(11);
      std::vector<float> values(static_cast<std::size_t>(kTokens * neurons));
      for (int draw = 0; draw < kDraws; ++draw) {
        for (float& value : values) {
          value = static_cast<float>(draws.normal() *
                                     (law == ActivationLaw::kProduct ? draws.normal() : 1.0));
        }
        const auto [totals, spread] = read_twice(values, neurons);
        for (std::size_t i = 0; i < 3; ++i) {
          sparsity[i] += spread.sparsity()[i] / kDraws;
        }
        hoyer += totals.hoyer() / kDraws;
        hoyer_token += totals.hoyer_token() / kDraws;
        variance += spread.neuron_variance() / totals.mean_square() / kDraws;
        kurtosis += spread.kurtosis() / kDraws;
      }
      EXPECT_NEAR(nulls.sparsity[0], sparsity[0], 0.1 * nulls.sparsity[0]);
      EXPECT_NEAR(nulls.sparsity[1], sparsity[1], 0.03 * nulls.sparsity[1]);
      EXPECT_NEAR(nulls.sparsity[2], sparsity[2], 0.02 * nulls.sparsity[2]);
      // Four standard errors of these draws, about.
      EXPECT_NEAR(nulls.hoyer, hoyer, (neurons == 8 ? 0.012 : 0.004) * nulls.hoyer);
      EXPECT_NEAR(nulls.hoyer_token, hoyer_token,
                  (neurons == 8 ? 0.01 : 0.0025) * nulls.hoyer_token);
      EXPECT_NEAR(nulls.neuron_variance, variance, 0.002);
      EXPECT_NEAR(nulls.kurtosis, kurtosis, (neurons == 8 ? 0.05 : 0.02) * nulls.kurtosis);
    }
  }
}

// The exact ratio and its first order meet, and two values are known: |cos| + |sin| of a uniform
// angle is 4 / pi on average.
TEST(ActivationNulls, HoyerOfManyAndOfTwo) {
  for (const ActivationLaw law : {ActivationLaw::kProduct, ActivationLaw::kGaussian}) {
    const double exact = activation_nulls(law, 1, 99'999).hoyer;
    EXPECT_NEAR(exact, activation_nulls(law, 1, 100'001).hoyer, 1e-6);
    EXPECT_TRUE(std::isnan(activation_nulls(law, 4, 1).hoyer_token));
  }
  const double two = activation_nulls(ActivationLaw::kGaussian, 1, 2).hoyer;
  EXPECT_NEAR(two, (std::sqrt(2.0) - 4.0 / std::numbers::pi) / (std::sqrt(2.0) - 1.0), 1e-12);
}

TEST(ActivationStatistics, RangesHoldExactly) {
  // Values of one size have the least sparseness; rounding may not take it below 0.
  for (const std::size_t count : {3U, 7U, 10U, 99U, 1000U}) {
    const Both equal = read_twice(std::vector<float>(count, 0.1F), 1);
    EXPECT_GE(equal.totals.hoyer(), 0.0) << count;
    EXPECT_LE(equal.totals.hoyer(), 1e-7) << count;
    EXPECT_TRUE(std::isnan(equal.spread.kurtosis())) << count;
    EXPECT_FALSE(equal.totals.varies());
    std::vector<double> values(count, 0.1);
    EXPECT_LE(effective_rank_of(values), static_cast<double>(count));
    LogitStatistics logits;
    EXPECT_TRUE(logits.add(std::vector<float>(std::min<std::size_t>(count, 8), 0.3F)));
    EXPECT_LE(logits.top8_mass(), 1.0);
    EXPECT_GE(logits.output_entropy(), 0.0);
  }
  EXPECT_TRUE(read_twice({1.0F, 2.0F, 1.0F, 2.5F}, 2).totals.varies());
  EXPECT_FALSE(read_twice({1.0F, 2.0F, 1.0F, 2.0F}, 2).totals.varies());
}

TEST(ActivationStatistics, EffectiveRankOfEqualAndOfOne) {
  EXPECT_NEAR(effective_rank_of(std::vector<double>{2.0, 2.0, 2.0, 0.0, -1e-18}), 3.0, 1e-14);
  EXPECT_NEAR(effective_rank_of(std::vector<double>{5.0, 0.0}), 1.0, 1e-15);
  EXPECT_TRUE(std::isnan(effective_rank_of(std::vector<double>{0.0, 0.0})));
}

TEST(LogitStatistics, EqualLogitsAndOneWinner) {
  LogitStatistics equal;
  EXPECT_TRUE(equal.add(std::vector<float>(32, 5.0F)));
  EXPECT_NEAR(equal.top8_mass(), 0.25, 1e-15);
  EXPECT_NEAR(equal.output_entropy(), std::log(32.0), 1e-12);
  LogitStatistics sure;
  std::vector<float> logits(32, -1000.0F);
  logits[7] = 1000.0F;
  EXPECT_TRUE(sure.add(logits));
  EXPECT_EQ(sure.top8_mass(), 1.0);
  EXPECT_EQ(sure.output_entropy(), 0.0);
}

TEST(LogitStatistics, TopEightByHand) {
  // Weights 1..10 of 55: the eight largest are 3..10, 52 of 55.
  std::vector<float> logits;
  for (const int weight : {4, 1, 9, 10, 2, 8, 7, 3, 6, 5}) {
    logits.push_back(std::log(static_cast<float>(weight)) - 3.0F);
  }
  double entropy = 0.0;
  for (int weight = 1; weight <= 10; ++weight) {
    entropy -= weight / 55.0 * std::log(weight / 55.0);
  }
  LogitStatistics statistics;
  EXPECT_TRUE(statistics.add(logits));
  EXPECT_NEAR(statistics.top8_mass(), 52.0 / 55.0, 1e-6);
  EXPECT_NEAR(statistics.output_entropy(), entropy, 1e-6);
  const float infinity = std::numeric_limits<float>::infinity();
  logits[0] = -infinity;  // masked out: 1 2 3 5 6 ... 10 of 51
  EXPECT_TRUE(statistics.add(logits));
  EXPECT_NEAR(statistics.top8_mass(), 0.5 * (52.0 / 55.0 + 50.0 / 51.0), 1e-6);
  logits[0] = infinity;
  EXPECT_FALSE(statistics.add(logits));
  logits[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(statistics.add(logits));
  EXPECT_EQ(statistics.tokens(), 2);
}

}  // namespace
}  // namespace vindex::statistics::activation_statistics_test
