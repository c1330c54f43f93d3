// The spread of sign flips against arithmetic by hand.
#include "statistics/null/sign_flip_null.hpp"

#include "statistics/samples/student.hpp"
#include "statistics/spectrum/metric_table.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace vindex::statistics::sign_flip_null_test {
namespace {

SignFlipDraw drawn(double var_at_1, double stable_rank, double effective_rank, double outliers) {
  SignFlipDraw draw;
  draw.var_at_k[0] = var_at_1;
  draw.stable_rank = stable_rank;
  draw.effective_rank = effective_rank;
  draw.mp_outliers = outliers;
  return draw;
}

MetricValues plain_values() {
  MetricValues values;
  values.var_at_k[0] = 0.9;
  values[Metric::kStableRank] = 1.5;
  values[Metric::kEffectiveRank] = 10.0;
  values[Metric::kMpOutliers] = 3.0;
  return values;
}

TEST(SignFlipSummaryTest, MeanDeviationAndZByHand) {
  SignFlipNull null;
  null.draws = {drawn(0.1, 2.0, 20.0, 0.0), drawn(0.2, 3.0, 20.5, 0.0), drawn(0.3, 7.0, 21.0, 0.0)};
  const SignFlipSummary summary = summarise_sign_flips(null, plain_values(), {}, 3);
  EXPECT_EQ(summary.var_at_k[0], 0.1) << "draw 0";
  EXPECT_NEAR(summary.var_at_k_spread[0].mean, 0.2, 1e-15);
  EXPECT_NEAR(summary.var_at_k_spread[0].std, 0.1, 1e-15);
  const double wider = std::sqrt(4.0 / 3.0);  // the value scatters about a mean of three draws
  EXPECT_NEAR(summary.var_at_k_spread[0].z, 7.0 / wider, 1e-12);
  EXPECT_NEAR(summary.var_at_k_spread[0].p, student_two_sided(7.0 / wider, 2.0), 1e-15);
  EXPECT_NEAR(summary.stable_rank.mean, 4.0, 1e-15);
  EXPECT_NEAR(summary.stable_rank.std, std::sqrt(7.0), 1e-14);
  EXPECT_NEAR(summary.stable_rank.z, -2.5 / std::sqrt(7.0) / wider, 1e-14);
  EXPECT_NEAR(summary.effective_rank.z, -21.0 / wider, 1e-12);
  EXPECT_GT(summary.stable_rank.p, summary.effective_rank.p);
  EXPECT_EQ(summary.mp_outliers.mean, 0.0);
  EXPECT_EQ(summary.mp_outliers.std, 0.0);
  EXPECT_TRUE(std::isnan(summary.mp_outliers.z)) << "the draws do not differ";
  EXPECT_TRUE(std::isnan(summary.mp_outliers.p));
  EXPECT_TRUE(std::isnan(summary.var_at_k_spread[3].mean)) << "was NaN in every draw";
  EXPECT_TRUE(std::isnan(summary.rand_distance)) << "no spectra";
}

// One degree: tan(0.475 pi); two: 0.95 sqrt(2 / 0.0975); the others: scipy.stats.t.ppf(0.975, f).
TEST(StudentTest, QuantilesAreExact) {
  EXPECT_NEAR(student_quantile(1.0), 12.706204736174698, 1e-10);
  EXPECT_NEAR(student_quantile(2.0), 4.302652729749464, 1e-10);
  EXPECT_NEAR(student_quantile(3.0), 3.182446305284263, 1e-10);
  EXPECT_NEAR(student_quantile(4.0), 2.7764451051977987, 1e-10);
  EXPECT_NEAR(student_quantile(5.0), 2.5705818356363146, 1e-10);
  EXPECT_NEAR(student_quantile(10.0), 2.2281388519649385, 1e-10);
  EXPECT_NEAR(student_quantile(30.0), 2.0422724563012373, 1e-10);
  EXPECT_NEAR(student_quantile(100.0), 1.9839715185235556, 1e-10);
  EXPECT_NEAR(student_quantile(1000.0), 1.9623390808264078, 1e-10);
  EXPECT_NEAR(student_quantile(1e9), 1.959963984540054, 1e-8);
  // Its own chance, where degrees are no whole number, and no step where the series takes over.
  for (const double freedom : {1.5, 4.7, 63.9, 499.0, 500.0, 700.0}) {
    EXPECT_NEAR(student_two_sided(student_quantile(freedom), freedom), 0.05, 1e-11) << freedom;
  }
}

// Two degrees: p = 1 - t / sqrt(2 + t^2); one: 1 - 2 atan(t) / pi; others from tables of the
// distribution (the 97.5 % and 99.95 % points) and its tail for large t.
TEST(StudentTest, IsTheTwoSidedTail) {
  for (const double t : {1e-9, 0.1, 0.9, 1.5, 4.0, 40.0}) {
    const double two = 2.0 / (2.0 + t * t) / (1.0 + t / std::sqrt(2.0 + t * t));
    EXPECT_NEAR(student_two_sided(t, 2.0), two, 1e-12 * two) << t;
    EXPECT_EQ(student_two_sided(-t, 2.0), student_two_sided(t, 2.0));
    const double one = 2.0 * std::atan(1.0 / t) / std::acos(-1.0);
    EXPECT_NEAR(student_two_sided(t, 1.0), one, 1e-12 * one) << t;
  }
  EXPECT_NEAR(student_two_sided(2.262157162798204, 9.0), 0.05, 1e-12);
  EXPECT_NEAR(student_two_sided(4.780912585931202, 9.0), 0.001, 1e-9);
  EXPECT_NEAR(student_two_sided(2.0, 999.0), 0.045770616973755396, 1e-12);
  EXPECT_NEAR(student_two_sided(0.5, 999.0), 0.6171851909302855, 1e-11);
  // Far out p falls as t^-9.
  EXPECT_NEAR(student_two_sided(2e4, 9.0) / student_two_sided(1e4, 9.0), 0x1p-9, 1e-8);
  EXPECT_EQ(student_two_sided(0.0, 9.0), 1.0);
  EXPECT_EQ(student_two_sided(1e300, 9.0), 0.0);
  EXPECT_EQ(student_two_sided(std::numeric_limits<double>::infinity(), 9.0), 0.0);
  EXPECT_TRUE(std::isnan(student_two_sided(std::nan(""), 9.0)));
}

// The value is one more draw: then p is uniform, and below 0.1 in a tenth of the cases. With the
// deviation alone in the denominator a p by the normal law would be, of 5 draws, in 0.21.
TEST(SignFlipSummaryTest, PIsUniformWhereTheValueIsOneMoreDraw) {
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  constexpr int kTrials = 20000;
  int below = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    SignFlipNull null;
    for (int draw = 0; draw < 5; ++draw) {
      null.draws.push_back(drawn(0.1, normal(engine), 20.0, 0.0));
    }
    MetricValues values = plain_values();
    values[Metric::kStableRank] = normal(engine);
    below += summarise_sign_flips(null, values, {}, 3).stable_rank.p < 0.1 ? 1 : 0;
  }
  EXPECT_NEAR(below, 0.1 * kTrials, 5.0 * std::sqrt(0.09 * kTrials));
}

TEST(SignFlipSummaryTest, OneDrawHasNoSpreadAndRoundingIsNone) {
  SignFlipNull null;
  null.draws = {drawn(0.1, 2.0, 20.0, 0.0)};
  const SignFlipSummary one = summarise_sign_flips(null, plain_values(), {}, 3);
  EXPECT_EQ(one.stable_rank.mean, 2.0);
  EXPECT_TRUE(std::isnan(one.stable_rank.std));
  EXPECT_TRUE(std::isnan(one.stable_rank.z));
  EXPECT_TRUE(std::isnan(one.stable_rank.p));
  null.draws.push_back(drawn(0.1 + 1e-16, 2.0, 20.0, 0.0));
  EXPECT_TRUE(std::isnan(summarise_sign_flips(null, plain_values(), {}, 3).var_at_k_spread[0].z));
  EXPECT_TRUE(std::isnan(summarise_sign_flips({}, plain_values(), {}, 3).stable_rank.mean));
}

TEST(SignFlipSummaryTest, DistanceIsTheRootOfTheJensenShannonDivergence) {
  // Shares 1/2 1/2 against 3/4 1/4, middle 5/8 3/8.
  SignFlipNull null;
  null.first_sigma = {std::sqrt(9.0), std::sqrt(3.0)};
  null.draws = {SignFlipDraw()};
  const std::vector<double> sigma = {2.0, 2.0};
  // Largest with largest: 1/2 with 3/4, 1/2 with 1/4.
  const double wanted = 0.5 * (0.5 * std::log(0.5 / 0.625) + 0.5 * std::log(0.5 / 0.375)) +
                        0.5 * (0.75 * std::log(0.75 / 0.625) + 0.25 * std::log(0.25 / 0.375));
  const SignFlipSummary summary = summarise_sign_flips(null, plain_values(), sigma, 2);
  EXPECT_NEAR(summary.rand_distance, std::sqrt(wanted), 1e-15);
  null.first_sigma = {5.0, 5.0};
  EXPECT_NEAR(summarise_sign_flips(null, plain_values(), sigma, 2).rand_distance, 0.0, 1e-8);
  null.first_sigma = {1.0, 0.0};
  const std::vector<double> nothing = {0.0, 0.0};
  EXPECT_TRUE(std::isnan(summarise_sign_flips(null, plain_values(), nothing, 2).rand_distance));
  EXPECT_TRUE(std::isnan(summarise_sign_flips(null, plain_values(), sigma, 100).rand_distance))
      << "the head of a spectrum only";
}

TEST(SignFlipCollectorTest, ADrawThatWasNotFoundIsNaNAndSpoilsTheMean) {
  const SignFlipCollector collector(3, 40, SpectrumMode::kDefault);
  SignFlipNull null;
  collector.add({3.0, 2.0, 1.0}, 14.0, null);
  EXPECT_NEAR(null.draws[0].var_at_k[0], 9.0 / 14.0, 1e-15);
  EXPECT_EQ(null.draws[0].var_at_k[2], 1.0);
  EXPECT_NEAR(null.draws[0].stable_rank, 14.0 / 9.0, 1e-15);
  EXPECT_EQ(null.first_sigma.size(), 3U);
  collector.add({}, 14.0, null);
  EXPECT_TRUE(std::isnan(null.draws[1].stable_rank));
  EXPECT_EQ(null.first_sigma.size(), 3U);
  EXPECT_TRUE(std::isnan(summarise_sign_flips(null, plain_values(), {}, 3).stable_rank.mean));
}

TEST(NullNameTest, IsWhatTheCommandLineSays) {
  EXPECT_EQ(null_name(0), "none");
  EXPECT_EQ(null_name(1), "signflip");
  EXPECT_EQ(null_name(20), "signflip=20");
}

}  // namespace
}  // namespace vindex::statistics::sign_flip_null_test
