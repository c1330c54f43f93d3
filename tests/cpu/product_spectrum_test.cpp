// Spectra of products: by hand, and against LAPACK on the product formed.
#include "product_fixture.hpp"

#include "tests/support/singular_values.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vindex::cpu::product_spectrum_test {
namespace {

MatrixReport measured(const std::vector<Factor>& chain, double scale = 1.0) {
  return product_spectrum(pointers(chain), scale);
}

TEST(ProductSpectrumTest, AnOuterProductHasOneValue) {
  const MatrixReport report = measured({{2, 1, {3, 4}}, {1, 3, {5, 12, 0}}}, -2.0);
  ASSERT_EQ(report.sigma.size(), 1U);
  EXPECT_NEAR(report.sigma[0], 2.0 * 5.0 * 13.0, 1e-12);
  EXPECT_NEAR(report.moments.sum_squares, 130.0 * 130.0, 1e-8);
  EXPECT_EQ(report.method, "product64+cpu");
}

TEST(ProductSpectrumTest, OrthogonalFactorsMultiplyTheirValues) {
  const Factor a{5, 3, {3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}};
  const Factor b{3, 4, {1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 9}};
  const MatrixReport report = measured({a, b});
  ASSERT_EQ(report.sigma.size(), 3U);
  EXPECT_NEAR(report.sigma[0], 9.0, 1e-14);
  EXPECT_NEAR(report.sigma[1], 8.0, 1e-14);
  EXPECT_NEAR(report.sigma[2], 3.0, 1e-14);
}

TEST(ProductSpectrumTest, AgreesWithLapackOnTheProduct) {
  std::mt19937_64 random(3);
  for (const std::vector<std::int64_t>& sides :
       std::vector<std::vector<std::int64_t>>{{40, 8, 30},
                                              {8, 40, 30},
                                              {30, 40, 8},
                                              {17, 17, 17},
                                              {60, 24, 9, 33, 50},
                                              {60, 9, 24, 33, 50},
                                              {5, 70},
                                              {70, 5},
                                              {50, 33, 24, 12},
                                              {1, 20, 30},
                                              {200, 64, 150}}) {
    std::vector<Factor> chain = noise_chain(sides, random);
    if (sides.size() > 2) {
      // Rank deficient and badly scaled: two equal columns, one of 1e-9.
      Factor& factor = chain.front();
      for (std::int64_t i = 0; i < factor.rows && factor.cols > 2; ++i) {
        double* const row = factor.values.data() + i * factor.cols;
        row[1] = row[0];
        row[2] *= 1e-9;
      }
    }
    const MatrixReport report = measured(chain, 0.5);
    ASSERT_EQ(report.status, MatrixStatus::kMeasured);
    const std::int64_t rank = product_rank(sides);
    ASSERT_EQ(report.sigma.size(), static_cast<std::size_t>(rank));
    const Factor product = formed(chain);
    const auto expected = testing::singular_values(product.values, product.rows, product.cols);
    const double allowed = product_error(pointers(chain), 0.5);
    EXPECT_LT(allowed, 1e-9 * expected[0]) << sides[0];
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(i < report.sigma.size() ? report.sigma[i] : 0.0, 0.5 * expected[i], allowed)
          << sides[0] << " value " << i;
    }
    EXPECT_LT(report.check_trace, 1e-13);

    // A shared factor may be reduced once.
    std::vector<Factor> reduced = chain;
    reduced.front() = reduced_left(reduced.front());
    reduced.back() = reduced_right(std::move(reduced.back()));
    const MatrixReport again = measured(reduced, 0.5);
    for (std::size_t i = 0; i < report.sigma.size(); ++i) {
      EXPECT_NEAR(again.sigma[i], report.sigma[i], allowed);
    }
  }
}

// Where factors cancel, what is left has the rounding of the factors.
TEST(ProductSpectrumTest, TheErrorIsThatOfFactorsThatCancel) {
  std::mt19937_64 random(5);
  constexpr std::int64_t kHalf = 6;
  const std::vector<Factor> noise = noise_chain({30, kHalf, 40}, random);
  Factor a{30, 2 * kHalf, {}};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (int copy = 0; copy < 2; ++copy) {
      for (std::int64_t j = 0; j < kHalf; ++j) {
        a.values.push_back(noise[0].values[static_cast<std::size_t>(i * kHalf + j)]);
      }
    }
  }
  Factor b{2 * kHalf, 40, noise[1].values};
  Factor difference{kHalf, 40, {}};
  for (const double value : noise[1].values) {
    b.values.push_back(-value * (1.0 + 1e-10));
    difference.values.push_back(value + b.values.back());  // exact: they are nearly equal
  }
  const Factor product = formed({noise[0], difference});
  const auto expected = testing::singular_values(product.values, product.rows, product.cols);
  const MatrixReport report = measured({a, b});
  ASSERT_EQ(report.status, MatrixStatus::kMeasured);
  EXPECT_GT(report.sigma_error, 1e-8 * expected[0]);
  for (std::size_t i = 0; i < report.sigma.size(); ++i) {
    EXPECT_NEAR(report.sigma[i], i < kHalf ? expected[i] : 0.0, report.sigma_error) << i;
  }
}

TEST(ProductSpectrumTest, WhatHasNoSpectrumSaysSo) {
  const MatrixReport zero = measured({{3, 2, {1, 2, 3, 4, 5, 6}}, {2, 2, {0, 0, 0, 0}}});
  EXPECT_EQ(zero.status, MatrixStatus::kMeasured);
  std::string reason;
  const statistics::MetricValues values = derive_product_metrics(3, 2, 2, zero, reason);
  EXPECT_EQ(reason.substr(0, 11), "zero matrix");
  EXPECT_EQ(values[statistics::Metric::kSpectralNorm], 0.0);
  EXPECT_TRUE(std::isnan(values[statistics::Metric::kStableRank]));

  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(measured({{2, 1, {1, nan}}, {1, 2, {1, 1}}}).status, MatrixStatus::kNotFinite);
  EXPECT_EQ(measured({{2, 1, {1e200, 1}}, {1, 2, {1e200, 1}}}).status, MatrixStatus::kNotFinite);
}

TEST(ProductMetricsTest, AreOverTheValuesThatMayDifferFromZero) {
  std::mt19937_64 random(4);
  const std::vector<Factor> chain = noise_chain({90, 12, 50}, random);
  const MatrixReport report = measured(chain);
  std::string reason;
  const statistics::MetricValues values = derive_product_metrics(90, 50, 12, report, reason);
  EXPECT_EQ(values[statistics::Metric::kNumericalRank], 12.0);
  EXPECT_EQ(values.var_at_k[4], 1.0);  // k = 16
  EXPECT_LT(values.var_at_k[3], 1.0);  // k = 8
  EXPECT_NEAR(values[statistics::Metric::kConditionNumber],
              report.sigma.front() / report.sigma.back(), 1e-9);
  EXPECT_LE(values[statistics::Metric::kEffectiveRank], 12.0);
  EXPECT_TRUE(std::isnan(values[statistics::Metric::kMpScale]));
  EXPECT_TRUE(std::isnan(values[statistics::Metric::kMpKs]));
  EXPECT_NE(reason.find("no Marchenko-Pastur bulk"), std::string::npos);
  const Factor product = formed(chain);
  double sum_squares = 0.0;
  for (const double value : product.values) {
    sum_squares += value * value;
  }
  EXPECT_NEAR(values[statistics::Metric::kFrobeniusNorm], std::sqrt(sum_squares),
              1e-12 * std::sqrt(sum_squares));
}

}  // namespace
}  // namespace vindex::cpu::product_spectrum_test
