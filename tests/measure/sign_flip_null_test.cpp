// The spread of sign flips against arithmetic by hand.
#include <vindex/measure/metrics.hpp>
#include <vindex/measure/sign_flip_null.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace vindex::measure {
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
  EXPECT_NEAR(summary.var_at_k_spread[0].z, 7.0, 1e-12);
  EXPECT_NEAR(summary.stable_rank.mean, 4.0, 1e-15);
  EXPECT_NEAR(summary.stable_rank.std, std::sqrt(7.0), 1e-14);
  EXPECT_NEAR(summary.stable_rank.z, -2.5 / std::sqrt(7.0), 1e-14);
  EXPECT_NEAR(summary.effective_rank.z, -21.0, 1e-12);
  EXPECT_EQ(summary.mp_outliers.mean, 0.0);
  EXPECT_EQ(summary.mp_outliers.std, 0.0);
  EXPECT_TRUE(std::isnan(summary.mp_outliers.z)) << "the draws do not differ";
  EXPECT_TRUE(std::isnan(summary.var_at_k_spread[3].mean)) << "was NaN in every draw";
  EXPECT_TRUE(std::isnan(summary.rand_distance)) << "no spectra";
}

TEST(SignFlipSummaryTest, OneDrawHasNoSpreadAndRoundingIsNone) {
  SignFlipNull null;
  null.draws = {drawn(0.1, 2.0, 20.0, 0.0)};
  const SignFlipSummary one = summarise_sign_flips(null, plain_values(), {}, 3);
  EXPECT_EQ(one.stable_rank.mean, 2.0);
  EXPECT_TRUE(std::isnan(one.stable_rank.std));
  EXPECT_TRUE(std::isnan(one.stable_rank.z));
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
  const SignFlipCollector collector(3, 40, Mode::kDefault);
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
}  // namespace vindex::measure
