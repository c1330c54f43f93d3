// Eigenvalues to singular values and the judgement of them, by hand.
#include "batch/judge.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vindex::test {
namespace {

using kernels::JudgedSpectrum;
using kernels::singular_values_of;
using measure::MatrixReport;
using measure::Status;

TEST(Judge, RootsInDescendingOrderWhateverTheSolversOrder) {
  const std::vector<double> ascending = {4.0, 9.0, 25.0};
  const std::vector<double> descending = {25.0, 9.0, 4.0};
  const std::vector<double> wanted = {5.0, 3.0, 2.0};
  EXPECT_EQ(singular_values_of({.eigenvalues = ascending}).sigma, wanted);
  EXPECT_EQ(singular_values_of({.eigenvalues = descending}).sigma, wanted);
}

TEST(Judge, ExponentsOfEitherParityAndSign) {
  const std::vector<double> values = {8.0};
  EXPECT_EQ(singular_values_of({.eigenvalues = values, .exponent = 1}).sigma[0], 4.0);
  EXPECT_EQ(singular_values_of({.eigenvalues = values, .exponent = -1}).sigma[0], 2.0);
  EXPECT_EQ(singular_values_of({.eigenvalues = values, .exponent = -3}).sigma[0], 1.0);
  EXPECT_EQ(singular_values_of({.eigenvalues = values, .exponent = -401}).sigma[0],
            std::ldexp(2.0, -200));
}

TEST(Judge, ZeroRowsBecomeExactZerosAndHideNoNegative) {
  const std::vector<double> noise = {4.0, 1e-17, -2e-17, 1e-3};
  const JudgedSpectrum spectrum = singular_values_of({.eigenvalues = noise, .zero_rows = 2});
  EXPECT_EQ(spectrum.sigma[0], 2.0);
  EXPECT_EQ(spectrum.sigma[2], 0.0);
  EXPECT_EQ(spectrum.sigma[3], 0.0);
  EXPECT_FALSE(spectrum.negative);
  const std::vector<double> below = {4.0, 0.0, -1e-9};
  const JudgedSpectrum bad = singular_values_of({.eigenvalues = below, .zero_rows = 1});
  EXPECT_TRUE(bad.negative);
  EXPECT_EQ(bad.sigma, (std::vector<double>{2.0, 0.0, 0.0}));
}

TEST(Judge, FailureAndNotANumberGiveNothing) {
  const std::vector<double> values = {1.0, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_TRUE(singular_values_of({.eigenvalues = values}).sigma.empty());
  const std::vector<double> good = {1.0};
  EXPECT_TRUE(singular_values_of({.eigenvalues = good, .failed = true}).sigma.empty());
}

TEST(Judge, AGramHoldsConditionsUpToTenTimesTheSize) {
  JudgedSpectrum spectrum = {.sigma = {20.0, 1.01}, .negative = false};
  EXPECT_FALSE(kernels::beyond_gram64(spectrum, 0));
  spectrum.sigma[1] = 0.99;
  EXPECT_TRUE(kernels::beyond_gram64(spectrum, 0));
  spectrum.sigma = {20.0, 19.0, 0.0};
  EXPECT_TRUE(kernels::beyond_gram64(spectrum, 0));
  EXPECT_FALSE(kernels::beyond_gram64(spectrum, 1)) << "an exact zero is no condition";
}

MatrixReport report_of(const std::vector<double>& sigma) {
  MatrixReport report;
  report.moments.count = 1;
  report.moments.max = 1.0;
  report.moments.min = -1.0;
  double fourth = 0.0;
  for (const double s : sigma) {
    report.moments.sum_squares += s * s;
    fourth += s * s * s * s;
  }
  report.gram_norm_squared = fourth;
  return report;
}

TEST(Judge, DoubtComesFromConditionSignAndChecks) {
  const std::vector<double> sigma = {50.0, 1.0};
  const JudgedSpectrum sound = {.sigma = sigma, .negative = false};
  MatrixReport report = report_of(sigma);
  kernels::fill_report(sound, 2, report);
  EXPECT_EQ(report.status, Status::kMeasured);
  EXPECT_FALSE(kernels::is_doubtful(sound, report));
  const JudgedSpectrum negative = {.sigma = sigma, .negative = true};
  EXPECT_TRUE(kernels::is_doubtful(negative, report));
  report.moments.sum_squares *= 1.00001;
  kernels::fill_report(sound, 2, report);
  EXPECT_TRUE(kernels::is_doubtful(sound, report)) << "the trace does not agree";
  const JudgedSpectrum steep = {.sigma = {101.0, 1.0}, .negative = false};
  report = report_of(steep.sigma);
  kernels::fill_report(steep, 2, report);
  EXPECT_TRUE(kernels::is_doubtful(steep, report));
  kernels::fill_report({}, 2, report);
  EXPECT_EQ(report.status, Status::kNotConverged);
  EXPECT_TRUE(kernels::is_doubtful({}, report));
}

TEST(Judge, FastKeepsSixtyFourValuesBetweenBounds) {
  std::vector<double> sigma(100);
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    sigma[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i));
  }
  MatrixReport report = report_of(sigma);
  kernels::fill_report({.sigma = sigma, .negative = false}, 100, report);
  kernels::keep_fast(1000, 100, report);
  EXPECT_EQ(report.sigma.size(), 64U);
  ASSERT_TRUE(report.bounds.has_value());
  const double exact = sigma[0] * sigma[0] / report.moments.sum_squares;
  EXPECT_LE(report.bounds->var_at_k_lower[0], exact);
  EXPECT_GE(report.bounds->var_at_k_upper[0], exact);
  EXPECT_LT(report.bounds->var_at_k_upper[0] - report.bounds->var_at_k_lower[0], 1e-9);
  EXPECT_TRUE(std::isnan(report.bounds->var_at_k_lower[7])) << "128 values are not kept";
}

}  // namespace
}  // namespace vindex::test
