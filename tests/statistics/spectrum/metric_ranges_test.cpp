// What holds of metrics whatever rounding did: nothing is said of values within their error, and
// ranges are exact.
#include "metric_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace vindex::statistics::metric_ranges_test {
namespace {

TEST(DeriveMetricsTest, WhatLiesWithinItsErrorIsNoTail) {
  // 6 values above the error and 4 that are nothing but rounding.
  MatrixReport report = report_of({8.0, 5.0, 3.0, 2.0, 1.5, 1.0, 3e-15, 2e-15, 1e-15, 4e-300});
  report.sigma_error = 1e-14;
  std::string reason;
  const MetricValues values = derive_metrics(10, 30, report, SpectrumMode::kStrict, reason);
  EXPECT_TRUE(std::isnan(values[Metric::kConditionNumber]));
  EXPECT_TRUE(std::isnan(values[Metric::kTraceLog]));
  EXPECT_EQ(reason, "sigma_min within its error");
  EXPECT_EQ(values[Metric::kSigmaMin], 4e-300);
  EXPECT_GE(values[Metric::kPlXmin], 1.0) << "the fit sees the six alone";
  EXPECT_LE(values[Metric::kPlTail], 6.0);
  EXPECT_NEAR(values[Metric::kHillAlpha],
              1.0 + 5.0 / (2.0 * (std::log(8.0 * 5.0 * 3.0 * 2.0 * 1.5) - 5.0 * std::log(1.0))),
              1e-12)
      << "the sixth is above the error";

  // One more within the error, and the value that hill_alpha counts from is not known.
  report.sigma[5] = 5e-15;
  reason.clear();
  EXPECT_TRUE(std::isnan(
      derive_metrics(10, 30, report, SpectrumMode::kStrict, reason)[Metric::kHillAlpha]));
  EXPECT_EQ(reason, "sigma_min within its error; no tail to fit");
}

TEST(DeriveMetricsTest, TheStoredErrorDecidesWhetherThereIsAConditionNumber) {
  MatrixReport report = report_of({4.0, 2.0, 1.0, 1e-6});
  for (const double error : {1e-5, 1e-6}) {
    SCOPED_TRACE(error);
    report.sigma_error = error;
    std::string reason;
    const MetricValues values = derive_metrics(4, 9, report, SpectrumMode::kDefault, reason);
    EXPECT_EQ(values[Metric::kSigmaMin], 1e-6);
    EXPECT_TRUE(std::isnan(values[Metric::kConditionNumber]));
    EXPECT_TRUE(std::isnan(values[Metric::kTraceLog]));
    EXPECT_EQ(reason, "sigma_min within its error");
  }
  report.sigma_error = 0.99e-6;
  std::string reason;
  const MetricValues values = derive_metrics(4, 9, report, SpectrumMode::kDefault, reason);
  EXPECT_EQ(values[Metric::kConditionNumber], 4.0 / 1e-6);
  EXPECT_FALSE(std::isnan(values[Metric::kTraceLog]));
  EXPECT_EQ(reason, "");
}

TEST(DeriveMetricsTest, RangesHoldExactly) {
  // Sums of rounded squares beside a sum over the weights that rounding left smaller, or larger.
  for (const double off : {1.0 - 8e-15, 1.0 + 8e-15}) {
    for (const std::size_t p : {1U, 2U, 3U, 64U, 100U, 300U}) {
      for (const bool is_flat : {true, false}) {
        std::vector<double> sigma(p, is_flat ? 0.1 : 1e-9);
        sigma[0] = is_flat ? 0.1 : 3.0;
        MatrixReport report = report_of(sigma);
        report.moments.sum_squares *= off;
        const auto size = static_cast<double>(p);
        const MetricValues values = derive(static_cast<std::int64_t>(p), 400, report);
        for (const double share : values.var_at_k) {
          EXPECT_LE(share, 1.0);
        }
        EXPECT_GE(values[Metric::kStableRank], 1.0);
        EXPECT_GE(values[Metric::kParticipationRatio], 1.0);
        for (const Metric rank : {Metric::kEffectiveRank, Metric::kEffectiveRankSigma}) {
          EXPECT_GE(values[rank], 1.0);
          EXPECT_LE(values[rank], size);
        }
        if (p > 1) {
          EXPECT_GE(values[Metric::kSpectralEntropy], 0.0);
          EXPECT_LE(values[Metric::kSpectralEntropy], 1.0);
          EXPECT_GE(values[Metric::kGini], 0.0);
          EXPECT_LE(values[Metric::kTraceLog], 0.0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::metric_ranges_test
