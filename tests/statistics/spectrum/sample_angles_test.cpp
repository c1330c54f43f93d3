// theta_seed and theta_qq on samples of known laws, beside the published figures of their kind.
#include "statistics/spectrum/sample_angles.hpp"

#include "statistics/samples/quantile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace vindex::statistics::sample_angles_test {
namespace {

template <typename Law>
std::vector<float> drawn(std::size_t count, Law law) {
  std::mt19937_64 engine(12);
  std::vector<float> out(count);
  for (float& value : out) {
    value = static_cast<float>(law(engine));
  }
  return out;
}

double seed_of(std::vector<float> sample) { return sample_angles(sample, false).theta_seed; }

const std::vector<float>& normal_sample() {
  static const std::vector<float> kSample = drawn(100000, std::normal_distribution<double>());
  return kSample;
}

TEST(SampleTest, IsEveryStrideThValue) {
  EXPECT_EQ(sample_stride(99999), 1);
  EXPECT_EQ(sample_stride(199999), 1);
  EXPECT_EQ(sample_stride(200000), 2);
  EXPECT_EQ(sample_size(199999), 100000);
  EXPECT_EQ(sample_size(7), 7);
  EXPECT_EQ(sample_stride(14680064), 146);
}

TEST(ThetaSeedTest, ByLaw) {
  EXPECT_NEAR(seed_of(normal_sample()), 21.0, 1.0);
  EXPECT_NEAR(seed_of(drawn(100000, std::uniform_real_distribution<double>(-1, 1))), 15.0, 0.3);
  EXPECT_NEAR(seed_of(drawn(100000,
                            [uniform = std::uniform_real_distribution<double>(-1, 1)](
                                auto& engine) mutable {  // Laplace
                              const double u = uniform(engine);
                              return std::copysign(std::log1p(-std::abs(u)), u);
                            })),
              53.0, 1.5);
  EXPECT_NEAR(seed_of(drawn(576, std::normal_distribution<double>())), 22.0, 8.0);
  EXPECT_EQ(seed_of(std::vector<float>(1000, 0.25F)), 0.0);
}

TEST(ThetaSeedTest, OneOutlierDecides) {
  for (const auto& [sigmas, expected] : {std::pair{10.0F, 25.0}, {20.0F, 45.0}, {50.0F, 75.0}}) {
    std::vector<float> sample = normal_sample();
    sample[500] = sigmas;
    EXPECT_NEAR(seed_of(sample), expected, 2.0) << sigmas;
  }
}

TEST(ThetaSeedTest, ShufflingAllWeightsChangesNothing) {
  std::vector<float> sample(normal_sample().begin(), normal_sample().begin() + 5000);
  const double before = seed_of(sample);
  std::shuffle(sample.begin(), sample.end(), std::mt19937(3));
  EXPECT_EQ(seed_of(sample), before);
}

// numpy: x = [1, 2, 4, 8, 16]; histogram(x, 256), kurtosis by hand, std(diff)/mean(diff).
TEST(ThetaSeedTest, ByHandForFiveValues) {
  std::vector<float> sample = {16, 1, 8, 2, 4};
  const SampleAngles angles = sample_angles(sample, false);
  EXPECT_EQ(sample, (std::vector<float>{1, 2, 4, 8, 16}));
  EXPECT_NEAR(angles.entropy, std::log2(5.0) / 8.0, 1e-14);
  EXPECT_NEAR(angles.spacing_cv, std::sqrt((1.0 + 4.0 + 16.0 + 64.0) / 4.0 - 3.75 * 3.75) / 3.75,
              1e-14);
  double m2 = 0.0;
  double m4 = 0.0;
  for (const double x : {1.0, 2.0, 4.0, 8.0, 16.0}) {
    m2 += std::pow(x - 6.2, 2) / 5.0;
    m4 += std::pow(x - 6.2, 4) / 5.0;
  }
  EXPECT_NEAR(angles.kurtosis, m4 / (m2 * m2) - 3.0, 1e-13);
  const double k = 1.0 - std::exp(-std::abs(angles.kurtosis) / 3.0);
  EXPECT_NEAR(angles.theta_seed, 90.0 * (0.3 * (1.0 - angles.entropy) + 0.5 * k), 1e-12)
      << "cv below 1";
}

TEST(ThetaQqTest, IsTheAngleToTheNormalLaw) {
  const auto qq_of = [](std::vector<float> sample) { return sample_angles(sample, true).theta_qq; };
  EXPECT_LT(qq_of(normal_sample()), 0.6);
  EXPECT_NEAR(qq_of(drawn(100000, std::uniform_real_distribution<double>(-1, 1))), 12.0, 0.5);
  EXPECT_GT(qq_of(drawn(100000, std::student_t_distribution<double>(3))), 18.0);
  // Quantiles themselves are the law.
  std::vector<float> exact;
  for (int i = 1; i <= 999; ++i) {
    exact.push_back(static_cast<float>(normal_quantile((i - 0.3175) / 999.365)));
  }
  EXPECT_LT(qq_of(exact), 0.7);
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-15);
  EXPECT_NEAR(normal_quantile(1e-10), -6.361340902404056, 1e-14);
  EXPECT_EQ(normal_quantile(0.5), 0.0);
}

TEST(SampleNullTest, IsTheMeanOfNormalSamples) {
  std::mt19937_64 engine(4);
  std::normal_distribution<double> normal;
  for (const int count : {7, 40, 300, 3000}) {
    constexpr int kDraws = 600;
    double seed = 0.0;
    double qq = 0.0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<float> sample(static_cast<std::size_t>(count));
      std::generate(sample.begin(), sample.end(),
                    [&] { return static_cast<float>(normal(engine)); });
      const SampleAngles angles = sample_angles(sample, true);
      seed += angles.theta_seed / kDraws;
      qq += angles.theta_qq / kDraws;
    }
    EXPECT_NEAR(theta_seed_null(count), seed, 0.9) << count;
    EXPECT_NEAR(theta_qq_null(count) / qq, 1.0, 0.06) << count;
  }
}

TEST(SampleAnglesTest, WhatHasNone) {
  std::vector<float> few = {1.0F, 2.0F, 3.0F};
  EXPECT_TRUE(std::isnan(sample_angles(few, true).theta_seed));
  EXPECT_EQ(sample_angles(few, true).count, 3);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> sample(1000, 1.0F);
    sample[7] = bad;
    EXPECT_TRUE(std::isnan(sample_angles(sample, true).theta_seed));
  }
  std::vector<float> equal(1000, -3.0F);
  const SampleAngles angles = sample_angles(equal, true);
  EXPECT_TRUE(angles.is_constant);
  EXPECT_EQ(angles.theta_seed, 0.0);
  EXPECT_TRUE(std::isnan(angles.theta_qq));
  EXPECT_TRUE(std::isnan(angles.entropy));
}

TEST(SortValuesTest, IsTheOrderOfTheStandardSort) {
  for (const std::size_t count :
       {std::size_t{3}, std::size_t{511}, std::size_t{512}, std::size_t{9000}}) {
    std::vector<float> values =
        drawn(count, [normal = std::normal_distribution<double>()](auto& engine) mutable {
          return std::exp(30.0 * normal(engine)) * (engine() % 2 == 0 ? 1.0 : -1.0);
        });
    values[0] = std::numeric_limits<float>::denorm_min();
    values[1] = 0.0F;
    values[2] = -std::numeric_limits<float>::max();
    // As float32, and with as few bits as binary16 and bfloat16 have.
    for (const std::uint32_t kept : {0xFFFFFFFFU, 0xFFFFE000U, 0xFFFF0000U}) {
      std::vector<float> cut = values;
      for (float& value : cut) {
        value = std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & kept);
      }
      std::vector<float> expected = cut;
      std::sort(expected.begin(), expected.end());
      sort_values(cut);
      EXPECT_EQ(cut, expected) << std::hex << kept;
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::sample_angles_test
