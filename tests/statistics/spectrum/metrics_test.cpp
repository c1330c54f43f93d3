// Metrics of one spectrum: against numpy and scipy, by hand, and where they are not defined.
#include "metric_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace vindex::statistics::metrics_test {
namespace {

// 150 x 400: a decaying head on a flat bulk, as in metrics_golden.py.
MatrixReport golden_report() {
  std::vector<double> sigma;
  for (int i = 0; i < 150; ++i) {
    sigma.push_back(1.0 + 9.0 * std::exp(-i / 3.0) + 2.0 * (1.0 - std::pow(i / 149.0, 0.7)));
  }
  MatrixReport report = report_of(sigma);
  report.moments.sum_squares *= 1.0 + 1e-9;
  return report;
}

TEST(MetricTableTest, NamesAreUniqueAndInTheOrderOfTheEnumeration) {
  std::set<std::string_view> names;
  std::size_t nulls = 0;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    const MetricRow& row = metric_rows()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.metric), i);
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.long_name.empty());
    nulls += row.has_null ? 1 : 0;
  }
  EXPECT_EQ(metric_rows().size(), kMetricCount);
  EXPECT_EQ(nulls, 14U) << "the contract names 14 with var_at_k, and theta has one";
}

// Golden: tests/statistics/spectrum/metrics_golden.py (numpy, scipy; full search for the power
// law).
TEST(DeriveMetricsTest, EqualsNumpyOnAHeadAndABulk) {
  std::string reason;
  const MetricValues values =
      derive_metrics(400, 150, golden_report(), SpectrumMode::kDefault, reason);
  EXPECT_EQ(reason, "");
  const std::vector<double> var_at_k = {
      0.16118900077474685, 0.2598556305919538, 0.36597006570989715,
      0.4519867918591182,  0.5290820333681356, 0.6378487449481561,
      0.797140879209449,   0.9701026623705092, 1.0};
  for (std::size_t i = 0; i < var_at_k.size(); ++i) {
    EXPECT_NEAR(values.var_at_k[i], var_at_k[i], 1e-13);
  }
  const std::map<Metric, double> golden = {
      {Metric::kVarAt64Top128, 0.8217077533439437},
      {Metric::kSpectralNorm, 12.0},
      {Metric::kSigmaMin, 1.0},
      {Metric::kNuclearNorm, 305.46344521105266},
      {Metric::kSigmaRatio12, 1.2781521487226137},
      {Metric::kConditionNumber, 12.0},
      {Metric::kStableRank, 6.203897258457774},
      {Metric::kParticipationRatio, 21.55388450810309},
      {Metric::kEffectiveRank, 61.36598906572997},
      {Metric::kEffectiveRankSigma, 130.50671891850067},
      {Metric::kSpectralEntropy, 0.821623510000869},
      {Metric::kRank90, 95},
      {Metric::kRank95, 117},
      {Metric::kRank99, 142},
      {Metric::kNumericalRank, 150},
      {Metric::kHillAlpha, 2.4834606472734606},
      {Metric::kPlAlpha, 2.4141539814378827},
      {Metric::kPlXmin, 2.758772169155922},
      {Metric::kPlKs, 0.07589143405326793},
      {Metric::kPlTail, 85},
      {Metric::kMpScale, 0.09463392515054561},
      {Metric::kMpOutliers, 10},
      {Metric::kMpLowerOutliers, 0},
      {Metric::kMpKs, 0.09086428174448109},
      {Metric::kTraceLog, -0.5797857600562933},
      {Metric::kGini, 0.5746824134382847},
  };
  for (const auto& [metric, value] : golden) {
    EXPECT_NEAR(values[metric], value, 1e-11 * std::abs(value))
        << metric_rows()[static_cast<std::size_t>(metric)].name;
  }
}

// sigma = 2, 1, 1: lambda = 4, 1, 1, F2 = 6.
TEST(DeriveMetricsTest, ThreeValuesByHand) {
  const MetricValues values = derive(3, 5, report_of({2.0, 1.0, 1.0}));
  EXPECT_DOUBLE_EQ(values.var_at_k[0], 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(values.var_at_k[1], 5.0 / 6.0);
  EXPECT_EQ(values.var_at_k[2], 1.0);  // k = 4 > p
  EXPECT_DOUBLE_EQ(values[Metric::kFrobeniusNorm], std::sqrt(6.0));
  EXPECT_DOUBLE_EQ(values[Metric::kNuclearNorm], 4.0);
  EXPECT_DOUBLE_EQ(values[Metric::kSigmaRatio12], 2.0);
  EXPECT_DOUBLE_EQ(values[Metric::kConditionNumber], 2.0);
  EXPECT_DOUBLE_EQ(values[Metric::kStableRank], 1.5);
  EXPECT_DOUBLE_EQ(values[Metric::kParticipationRatio], 2.0);  // 36 / 18
  const double entropy = 4.0 / 6.0 * std::log(1.5) + 2.0 / 6.0 * std::log(6.0);
  EXPECT_NEAR(values[Metric::kEffectiveRank], std::exp(entropy), 1e-14);
  EXPECT_NEAR(values[Metric::kSpectralEntropy], entropy / std::log(3.0), 1e-14);
  EXPECT_NEAR(values[Metric::kEffectiveRankSigma], std::sqrt(8.0), 1e-14);  // 1/2, 1/4, 1/4
  EXPECT_EQ(values[Metric::kRank90], 3.0);
  EXPECT_NEAR(values[Metric::kHillAlpha], 1.0 + 1.0 / std::log(4.0), 1e-14);
  EXPECT_NEAR(values[Metric::kTraceLog], (std::log(2.0) + 2.0 * std::log(0.5)) / 3.0, 1e-14);
  // mean |difference| over all 9 pairs 12/9, over twice the mean 2
  EXPECT_NEAR(values[Metric::kGini], 12.0 / 9.0 / 4.0, 1e-14);
  EXPECT_EQ(values[Metric::kVarAt64Top128], 1.0);
}

TEST(DeriveMetricsTest, GiniEqualsTheMeanDifferenceOfAllPairs) {
  const MatrixReport report = golden_report();
  double difference = 0.0;
  double sum = 0.0;
  for (const double a : report.sigma) {
    sum += a * a;
    for (const double b : report.sigma) {
      difference += std::abs(a * a - b * b);
    }
  }
  EXPECT_NEAR(derive(150, 400, report)[Metric::kGini], difference / (2.0 * 150.0 * sum), 1e-13);
}

TEST(DeriveMetricsTest, TheDenominatorIsTheNormOfTheDecodedWeights) {
  MatrixReport report = report_of(std::vector<double>(8, 1.0));
  report.moments.sum_squares = 10.0;  // not the 8 that the spectrum sums to
  const MetricValues values = derive(8, 9, report);
  EXPECT_DOUBLE_EQ(values.var_at_k[2], 0.4);
  EXPECT_DOUBLE_EQ(values[Metric::kStableRank], 10.0);
  EXPECT_DOUBLE_EQ(values[Metric::kParticipationRatio], 12.5);
  EXPECT_DOUBLE_EQ(values[Metric::kTraceLog], std::log(0.8));
  EXPECT_EQ(values[Metric::kRank90], 8.0) << "var_at_k is 1 at k = p by definition";
}

TEST(DeriveMetricsTest, ZeroMatrixHasNormsAndRanksButNoRatios) {
  for (const SpectrumMode mode :
       {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    std::string reason;
    const MetricValues values =
        derive_metrics(4, 300, report_of({0.0, 0.0, 0.0, 0.0}), mode, reason);
    EXPECT_EQ(reason, "zero matrix");
    for (const Metric metric :
         {Metric::kSpectralNorm, Metric::kSigmaMin, Metric::kFrobeniusNorm, Metric::kNuclearNorm,
          Metric::kRank90, Metric::kRank95, Metric::kRank99, Metric::kNumericalRank}) {
      EXPECT_EQ(values[metric], 0.0);
    }
    for (const Metric metric :
         {Metric::kStableRank, Metric::kConditionNumber, Metric::kSigmaRatio12, Metric::kGini,
          Metric::kEffectiveRank, Metric::kTraceLog, Metric::kPlAlpha, Metric::kMpKs,
          Metric::kVarAt64Top128, Metric::kSpectralEntropy, Metric::kParticipationRatio}) {
      EXPECT_TRUE(std::isnan(values[metric]));
    }
    for (const double value : values.var_at_k) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(DeriveMetricsTest, UnreliableTailIsNanAndTheRestStays) {
  MatrixReport report = golden_report();
  report.tail_reliable = false;
  std::string reason = "check alarm";
  const MetricValues values = derive_metrics(150, 400, report, SpectrumMode::kDefault, reason);
  EXPECT_EQ(reason, "check alarm; tail not reliable");
  for (const Metric metric :
       {Metric::kSigmaMin, Metric::kConditionNumber, Metric::kNumericalRank, Metric::kTraceLog,
        Metric::kNuclearNorm, Metric::kEffectiveRankSigma, Metric::kMpScale, Metric::kMpOutliers,
        Metric::kMpLowerOutliers, Metric::kMpKs, Metric::kTheta, Metric::kSignal, Metric::kRankEdge,
        Metric::kRankGd}) {
    EXPECT_TRUE(std::isnan(values[metric])) << metric_rows()[static_cast<std::size_t>(metric)].name;
  }
  EXPECT_EQ(values[Metric::kRank90], 95.0);
  EXPECT_FALSE(std::isnan(values[Metric::kEffectiveRank]));
}

TEST(DeriveMetricsTest, FastModeHasTheHeadOnly) {
  MatrixReport report = golden_report();
  const MetricValues whole = derive(150, 400, report);
  report.sigma.resize(64);
  report.check_trace = 1e-7;
  std::string reason;
  const MetricValues values = derive_metrics(150, 400, report, SpectrumMode::kFast, reason);
  EXPECT_EQ(reason, "fast mode: no tail");
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    if (kVarAtK[i] == 128) {
      EXPECT_TRUE(std::isnan(values.var_at_k[i]));
    } else {
      EXPECT_EQ(values.var_at_k[i], whole.var_at_k[i]) << kVarAtK[i];  // 256 >= p: 1
    }
  }
  const std::set<Metric> head = {Metric::kSpectralNorm, Metric::kFrobeniusNorm,
                                 Metric::kSigmaRatio12, Metric::kStableRank};
  for (const MetricRow& row : metric_rows()) {
    if (head.count(row.metric) == 1) {
      EXPECT_EQ(values[row.metric], whole[row.metric]) << row.name;
    } else if (row.metric != Metric::kCheckTrace) {
      EXPECT_TRUE(std::isnan(values[row.metric])) << row.name;
    }
  }
  EXPECT_EQ(values[Metric::kCheckTrace], 1e-7);
}

TEST(DeriveMetricsTest, FastModeOfAShortSpectrumKnowsTheTruncatedShare) {
  std::string reason;
  const MetricValues values =
      derive_metrics(3, 5, report_of({2.0, 1.0, 1.0}), SpectrumMode::kFast, reason);
  EXPECT_EQ(values[Metric::kVarAt64Top128], 1.0);
  EXPECT_TRUE(std::isnan(values[Metric::kSigmaMin]));
}

TEST(DeriveMetricsTest, OneRowHasOneSingularValue) {
  std::string reason;
  const MetricValues values =
      derive_metrics(1, 100, report_of({3.0}), SpectrumMode::kDefault, reason);
  EXPECT_EQ(reason, "one singular value");
  EXPECT_EQ(values.var_at_k[0], 1.0);
  EXPECT_EQ(values[Metric::kConditionNumber], 1.0);
  EXPECT_DOUBLE_EQ(values[Metric::kStableRank], 1.0);
  EXPECT_NEAR(values[Metric::kEffectiveRank], 1.0, 1e-15);
  EXPECT_EQ(values[Metric::kRank99], 1.0);
  EXPECT_EQ(values[Metric::kNumericalRank], 1.0);
  EXPECT_NEAR(values[Metric::kGini], 0.0, 1e-15);
  for (const Metric metric :
       {Metric::kSigmaRatio12, Metric::kSpectralEntropy, Metric::kHillAlpha, Metric::kPlAlpha}) {
    EXPECT_TRUE(std::isnan(values[metric]));
  }
}

TEST(DeriveMetricsTest, ZeroSingularValuesLeaveNoConditionNumber) {
  std::string reason;
  const MetricValues values =
      derive_metrics(5, 7, report_of({4.0, 2.0, 1.0, 0.0, 0.0}), SpectrumMode::kDefault, reason);
  EXPECT_EQ(reason, "zero singular value");  // the median is none: there is a bulk
  EXPECT_EQ(values[Metric::kSigmaMin], 0.0);
  EXPECT_TRUE(std::isnan(values[Metric::kConditionNumber]));
  EXPECT_TRUE(std::isnan(values[Metric::kTraceLog]));
  EXPECT_EQ(values[Metric::kNumericalRank], 3.0);
  EXPECT_FALSE(std::isnan(values[Metric::kEffectiveRank]));
  EXPECT_FALSE(std::isnan(values[Metric::kPlAlpha]));
}

TEST(DeriveMetricsTest, NumericalRankUsesTheLongSideAndFloatPrecision) {
  const double threshold = 1000.0 * 0x1p-23;
  const MetricValues values =
      derive(3, 1000, report_of({1.0, threshold * 1.0001, threshold * 0.9999}));
  EXPECT_EQ(values[Metric::kNumericalRank], 2.0);
}

TEST(DeriveMetricsTest, EqualValuesHaveNoTailToFit) {
  std::string reason;
  const MetricValues values = derive_metrics(100, 100, report_of(std::vector<double>(100, 2.0)),
                                             SpectrumMode::kStrict, reason);
  EXPECT_EQ(reason, "no tail to fit");
  EXPECT_TRUE(std::isnan(values[Metric::kHillAlpha]));
  EXPECT_TRUE(std::isnan(values[Metric::kPlTail]));
  EXPECT_NEAR(values[Metric::kEffectiveRank], 100.0, 1e-10);
  EXPECT_NEAR(values[Metric::kSpectralEntropy], 1.0, 1e-13);
  EXPECT_EQ(values[Metric::kMpLowerOutliers], 0.0);
}

TEST(DeriveMetricsTest, ValuesBelowTheNoiseEdgeAreLowerOutliers) {
  // Bulk of one value at the median of the law; scale 1 by construction, lower edge near 3.2.
  std::vector<double> sigma(100, std::sqrt(400.0 * 0.9));
  sigma[98] = 5.0;
  sigma[99] = 1.0;
  EXPECT_EQ(derive(100, 400, report_of(sigma))[Metric::kMpLowerOutliers], 2.0);
  EXPECT_EQ(derive(100, 105, report_of(sigma))[Metric::kMpLowerOutliers], 0.0) << "p > 0.95 n";
}

// Golden: metrics_golden.py, values 3 - 2.9 i/999 of a 1000 x 2500 matrix.
TEST(DeriveMetricsTest, DenseValuesTellBothOutlierThresholds) {
  std::vector<double> sigma;
  for (int i = 0; i < 1000; ++i) {
    sigma.push_back(3.0 - 2.9 * i / 999.0);
  }
  const MetricValues values = derive(1000, 2500, report_of(sigma));
  EXPECT_NEAR(values[Metric::kMpScale], 0.03333353511968104, 1e-13);
  EXPECT_EQ(values[Metric::kMpOutliers], 92.0);
  EXPECT_EQ(values[Metric::kMpLowerOutliers], 174.0);
  EXPECT_NEAR(values[Metric::kMpKs], 0.185649786569794, 1e-12);
}

TEST(DeriveMetricsTest, UnmeasuredMatricesHaveNoValues) {
  MatrixReport report = golden_report();
  report.status = MatrixStatus::kNotFinite;
  const MetricValues values = derive(150, 400, report);
  for (const MetricRow& row : metric_rows()) {
    EXPECT_TRUE(std::isnan(values[row.metric])) << row.name;
  }
}

TEST(DeriveMetricsTest, ChecksPassThrough) {
  MatrixReport report = golden_report();
  report.check_trace = 1e-8;
  report.check_gram = 2e-8;
  const MetricValues values = derive(150, 400, report);
  EXPECT_EQ(values[Metric::kCheckTrace], 1e-8);
  EXPECT_EQ(values[Metric::kCheckGram], 2e-8);
}

TEST(DeriveMetricsTest, RatiosDoNotDependOnTheScale) {
  const MetricValues values = derive(150, 400, golden_report());
  for (const double scale : {0x1p-100, 0x1p100}) {
    MatrixReport report = golden_report();
    for (double& sigma : report.sigma) {
      sigma *= scale;
    }
    report.moments.sum_squares *= scale * scale;
    const MetricValues scaled = derive(150, 400, report);
    for (const Metric metric :
         {Metric::kStableRank, Metric::kEffectiveRank, Metric::kEffectiveRankSigma,
          Metric::kHillAlpha, Metric::kPlAlpha, Metric::kMpKs, Metric::kTraceLog, Metric::kGini,
          Metric::kMpOutliers, Metric::kNumericalRank, Metric::kParticipationRatio}) {
      EXPECT_NEAR(scaled[metric], values[metric], 1e-11 * std::abs(values[metric]));
    }
    EXPECT_NEAR(scaled[Metric::kMpScale], values[Metric::kMpScale] * scale,
                1e-12 * values[Metric::kMpScale] * scale);
  }
}

TEST(DeriveMetrics, FastValuesStayWithinTheirCertifiedBounds) {
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.sigma.assign(64, 0.0);
  report.sigma[0] = 2.0000000000000009;  // a rank-one matrix, one rounding too large
  report.moments.count = 100 * 80;
  report.moments.sum_squares = 4.0;
  SpectrumBounds bounds;
  bounds.var_at_k_lower.assign(9, 0.999);
  bounds.var_at_k_upper.assign(9, 1.0);
  bounds.stable_rank_lower = 1.0;
  bounds.stable_rank_upper = 1.001;
  report.bounds = bounds;
  std::string reason;
  const MetricValues values = derive_metrics(100, 80, report, SpectrumMode::kFast, reason);
  EXPECT_EQ(values.var_at_k[0], 1.0);
  EXPECT_EQ(values[Metric::kStableRank], 1.0);
}

}  // namespace
}  // namespace vindex::statistics::metrics_test
