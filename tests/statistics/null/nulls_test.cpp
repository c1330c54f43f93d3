// The nulls against recorded and fresh draws of noise, and against each other.
#include "statistics/null/nulls.hpp"

#include "noise_draws.hpp"
#include "null_table.hpp"

#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <cblas.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

// LAPACK; OpenBLAS holds it, its headers declare it only with LAPACKE.
extern "C" void dsyevd_(const char* job, const char* part, const int* size, double* matrix,
                        const int* stride, double* values, double* work, const int* work_size,
                        int* integers, const int* integers_size, int* info);

namespace vindex::statistics::nulls_test {
namespace {

TEST(NullMetricsTest, ExactlyTheMetricsOfTheTableHaveOne) {
  for (const auto& [rows, cols] : {std::pair{2, 2}, {2, 3}, {64, 200}, {2048, 7168}}) {
    const MetricValues nulls = null_metrics(rows, cols);
    for (const MetricRow& row : metric_rows()) {
      const bool square_condition = row.metric == Metric::kConditionNumber && rows == cols;
      EXPECT_EQ(std::isfinite(nulls[row.metric]), row.has_null && !square_condition)
          << row.name << " " << rows << "x" << cols;
    }
    for (const double value : nulls.var_at_k) {
      EXPECT_GT(value, 0.0);
      EXPECT_LE(value, 1.0);
    }
  }
}

// Singular values of a p x n Gaussian matrix: eigenvalues of its float64 Gram. Row i has
// spikes[i] sqrt(n) added along a direction of its own (column i).
MatrixReport noise(int p, int n, std::uint32_t seed, const std::vector<double>& spikes = {}) {
  openblas_set_num_threads(1);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> weights(static_cast<std::size_t>(p) * static_cast<std::size_t>(n));
  MatrixReport report;
  for (double& weight : weights) {
    weight = normal(engine);
  }
  for (std::size_t i = 0; i < spikes.size(); ++i) {
    weights[i * static_cast<std::size_t>(n) + i] += spikes[i] * std::sqrt(n);
  }
  for (const double weight : weights) {
    report.moments.sum_squares += weight * weight;
  }
  std::vector<double> gram(static_cast<std::size_t>(p) * static_cast<std::size_t>(p));
  cblas_dsyrk(CblasColMajor, CblasLower, CblasTrans, p, n, 1.0, weights.data(), n, 0.0, gram.data(),
              p);
  std::vector<double> values(static_cast<std::size_t>(p));
  const int work_size = 4 * p + 64 * p;
  std::vector<double> work(static_cast<std::size_t>(work_size));
  std::vector<int> integers(16);
  const int integers_size = 16;
  int info = 0;
  dsyevd_("N", "L", &p, gram.data(), &p, values.data(), work.data(), &work_size, integers.data(),
          &integers_size, &info);
  EXPECT_EQ(info, 0);
  report.status = MatrixStatus::kMeasured;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    report.sigma.push_back(std::sqrt(std::max(0.0, *value)));
  }
  return report;
}

TEST(NullMetricsTest, AgreeWithEachOther) {
  for (const auto& [rows, cols] : {std::pair{2, 2},
                                   {2, 3},
                                   {3, 700},
                                   {7, 50},
                                   {64, 64},
                                   {96, 97},
                                   {333, 340},
                                   {2048, 7168},
                                   {64, 163840}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols));
    const MetricValues nulls = null_metrics(rows, cols);
    const double p = rows;
    if (rows >= 64) {  // metrics of one mean spectrum; below they are means of each metric
      EXPECT_EQ(nulls[Metric::kStableRank], 1.0 / nulls.var_at_k[0]);
      EXPECT_NEAR(nulls[Metric::kSpectralEntropy],
                  std::log(nulls[Metric::kEffectiveRank]) / std::log(p), 1e-12);
    }
    for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
      EXPECT_GE(nulls.var_at_k[i], std::min(1.0, kVarAtK[i] / p)) << "never below k/p";
      if (kVarAtK[i] >= rows) {
        EXPECT_EQ(nulls.var_at_k[i], 1.0);
      } else if (i > 0) {
        EXPECT_GT(nulls.var_at_k[i], nulls.var_at_k[i - 1]);
      }
    }
    if (rows > 2) {  // means of two values need not keep the order of their definitions
      EXPECT_LE(nulls[Metric::kStableRank], nulls[Metric::kParticipationRatio]);
      EXPECT_LE(nulls[Metric::kParticipationRatio], nulls[Metric::kEffectiveRank]);
      EXPECT_LE(nulls[Metric::kEffectiveRank], nulls[Metric::kEffectiveRankSigma]);
      EXPECT_LE(nulls[Metric::kEffectiveRankSigma], p);
    }
    EXPECT_LE(1.0, nulls[Metric::kRank90]);
    EXPECT_LE(nulls[Metric::kRank90], nulls[Metric::kRank95]);
    EXPECT_LE(nulls[Metric::kRank95], nulls[Metric::kRank99]);
    EXPECT_LE(nulls[Metric::kRank99], p);
    EXPECT_LT(nulls[Metric::kTraceLog], 0.0);
    EXPECT_GT(nulls[Metric::kGini], 0.0);
    EXPECT_LT(nulls[Metric::kGini], 1.0);
    EXPECT_GT(nulls[Metric::kHillAlpha], 1.0);
    if (rows != cols) {
      EXPECT_GT(nulls[Metric::kConditionNumber], 1.0);
    }
    const MetricValues turned = null_metrics(cols, rows);
    EXPECT_EQ(turned.var_at_k, nulls.var_at_k);
    EXPECT_EQ(turned[Metric::kRank90], nulls[Metric::kRank90]);
  }
}

// n = p + 1: the smallest eigenvalue is an exponential variable of mean 2/p (Edelman 1988), so that
// the mean of 1/s_p is sqrt(pi p / 2); s_1 hardly varies and is independent of it in the limit.
TEST(NullMetricsTest, OneColumnMoreThanRowsHasAKnownConditionNumber) {
  for (const double p : {64.0, 512.0, 4096.0}) {
    const MetricValues nulls =
        null_metrics(static_cast<std::int64_t>(p), static_cast<std::int64_t>(p) + 1);
    const double largest = std::sqrt(nulls.var_at_k[0] * p * (p + 1.0));
    EXPECT_NEAR(nulls[Metric::kConditionNumber] / (largest * std::sqrt(0.5 * std::acos(-1.0) * p)),
                1.0, 4e-3)
        << p;
  }
}

// Two rows: both eigenvalues are known. E[l_1 + l_2] = 2n, and the mean of ln det is a sum of two
// digammas: psi(1) = -0.5772156649, psi(1/2) = -1.9635100260, psi(2) = 0.4227843351.
TEST(NullMetricsTest, TraceLogIsTheMeanOfTheDeterminant) {
  EXPECT_NEAR(null_metrics(2, 2)[Metric::kTraceLog],
              0.5 * (-0.5772156649 - 1.9635100260) - 0.4227843351 + std::log(2.0), 1e-9);
}

constexpr double kPromised = 0.005;

TEST(NullTableTest, EveryNullIsWithinHalfAPerCentOfTheRecordedDraws) {
  const std::vector<test::DrawnShape> shapes = test::read_null_draws(VINDEX_NULL_DRAWS);
  ASSERT_EQ(shapes.size(), test::null_table_shapes().size());
  ASSERT_GE(shapes.size(), 24U);
  for (const test::DrawnShape& shape : shapes) {
    const MetricValues nulls = null_metrics(shape.rows, shape.cols);
    std::size_t compared = 0;
    for (const test::DrawnMean& drawn : shape.means) {
      const double null = test::value_of(nulls, drawn.metric);
      if (std::isnan(null)) {
        continue;
      }
      ++compared;
      if (test::is_null_drawn(shape)) {
        const bool has_no_variance =
            (drawn.metric == "condition_number" && shape.cols == shape.rows + 1) ||
            (drawn.metric == "hill_alpha" && shape.rows < 4);
        const double table = drawn.metric == "theta" && shape.rows >= 16 ? 0.05 * drawn.mean : 0.0;
        if (!has_no_variance) {
          EXPECT_LE(std::abs(null - drawn.mean),
                    5.0 * std::hypot(drawn.error, test::error_of_null(shape, drawn)) + table +
                        1e-9 * std::abs(drawn.mean))
              << shape.rows << "x" << shape.cols << " " << drawn.metric;
        }
        continue;
      }
      EXPECT_LE(drawn.error, 0.0025 * std::abs(drawn.mean)) << "too few draws to tell";
      EXPECT_LE(std::abs(null - drawn.mean), kPromised * std::abs(drawn.mean))
          << shape.rows << "x" << shape.cols << " " << drawn.metric << " null " << null << " mean "
          << drawn.mean << " +- " << drawn.error;
    }
    EXPECT_EQ(compared,
              (shape.rows == shape.cols ? 21U : 22U) + (test::is_null_drawn(shape) ? 1U : 0U));
  }
}

TEST(NullTableTest, ThePageIsMadeOfTheRecordedDraws) {
  EXPECT_EQ(test::null_page(test::read_null_draws(VINDEX_NULL_DRAWS)),
            test::text_of_file(VINDEX_NULL_PAGE))
      << "docs/measuring/nulls.md is out of date: null_table page tests/data/null_draws.csv > "
         "docs/measuring/nulls.md";
}

// The same comparison with draws of this moment, four standard errors wide where they are the
// wider.
TEST(NullTableTest, FreshDrawsComeOutAsTheNulls) {
  for (const auto& [rows, cols, draws] :
       {std::tuple{64, 96, 3000}, {120, 64, 3000}, {96, 333, 1500}, {150, 150, 800}}) {
    const MetricValues nulls = null_metrics(rows, cols);
    for (const test::DrawnMean& drawn : test::drawn_means(rows, cols, draws, 77)) {
      const double null = test::value_of(nulls, drawn.metric);
      if (!std::isnan(null)) {
        EXPECT_LE(std::abs(null - drawn.mean),
                  std::max(kPromised * std::abs(drawn.mean), 4.0 * drawn.error))
            << rows << "x" << cols << " " << drawn.metric << " null " << null << " mean "
            << drawn.mean << " +- " << drawn.error;
      }
    }
  }
}

// The bidiagonal model against matrices themselves: the same means within the draws' errors.
TEST(NullTableTest, TheBidiagonalModelIsTheGaussianMatrix) {
  constexpr int kRows = 24;
  constexpr int kCols = 40;
  constexpr int kDraws = 400;
  double sum = 0.0;
  double squares = 0.0;
  for (std::uint32_t seed = 1; seed <= kDraws; ++seed) {
    std::string reason;
    const double value = derive_metrics(kRows, kCols, noise(kRows, kCols, seed),
                                        SpectrumMode::kDefault, reason)[Metric::kConditionNumber];
    sum += value;
    squares += value * value;
  }
  const double mean = sum / kDraws;
  const double error = std::sqrt((squares / kDraws - mean * mean) / kDraws);
  bool found = false;
  for (const test::DrawnMean& drawn : test::drawn_means(kRows, kCols, 4000, 5)) {
    if (drawn.metric == "condition_number") {
      found = true;
      EXPECT_NEAR(drawn.mean, mean, 4.0 * std::hypot(error, drawn.error));
    }
  }
  EXPECT_TRUE(found);
}

// The difference of the two eigenvalues of a 2 x 2 Wishart matrix of n degrees over their sum has a
// mean that is known: (l_1 - l_2)/(l_1 + l_2) has density proportional to x (1 - x^2)^((n-3)/2), so
// that var_at_1 is 1/2 + B(3/2, (n-1)/2) / (2 B(1, (n-1)/2)).
TEST(NullMetricsTest, TwoRowsHaveAKnownMean) {
  for (const double n : {2.0, 3.0, 10.0, 1000.0}) {
    const double half = 0.5 * (n - 1.0);
    const double exact =
        0.5 + 0.5 * std::exp(std::lgamma(1.5) + std::lgamma(1.0 + half) - std::lgamma(1.5 + half));
    const MetricValues nulls = null_metrics(2, static_cast<std::int64_t>(n));
    EXPECT_NEAR(nulls.var_at_k[0], exact, 0.005 * exact) << n;
    EXPECT_GT(nulls[Metric::kStableRank], 1.0 / nulls.var_at_k[0]) << "Jensen";
  }
}

// Of two rows of n: l_1 - l_2 is 2 sqrt(n) times a Rayleigh variable where n is large, so var@1 is
// (1 + sqrt(pi / 2) / sqrt(n)) / 2. Steps that had to tell apart values as near as that took as
// many as the root of n.
TEST(NullMetricsTest, ThinShapesTakeNoLongerTheLongerTheyAre) {
  for (const std::int64_t n :
       {std::int64_t{1} << 12, std::int64_t{1} << 28, std::int64_t{1} << 46}) {
    const double root = std::sqrt(static_cast<double>(n));
    const MetricValues nulls = null_metrics(2, n);
    const MetricValues errors = null_errors(n, 2);
    const double excess = (2.0 * nulls.var_at_k[0] - 1.0) * root;
    EXPECT_NEAR(excess, std::sqrt(std::acos(-1.0) / 2.0), 10.0 * errors.var_at_k[0] * root) << n;
    EXPECT_NEAR(2.0 * errors.var_at_k[0] * root, 0.655 / 128.0, 3e-4) << n;
    EXPECT_EQ(nulls.var_at_k[1], 1.0);
  }
  const MetricValues long_ones = null_metrics(40, std::int64_t{1} << 40);
  EXPECT_NEAR(long_ones[Metric::kEffectiveRank], 40.0, 1e-6);
  EXPECT_GT(long_ones.var_at_k[0], 1.0 / 40.0);
}

TEST(NullMetricsTest, DrawnOnesHaveTheirErrors) {
  const MetricValues errors = null_errors(8, 16);
  for (const MetricRow& row : metric_rows()) {
    const bool is_exact = row.metric == Metric::kTraceLog || row.metric == Metric::kNumericalRank;
    if (row.has_null) {
      EXPECT_EQ(errors[row.metric] == 0.0, is_exact) << row.name;
      EXPECT_GE(errors[row.metric], 0.0) << row.name;
    } else {
      EXPECT_TRUE(std::isnan(errors[row.metric])) << row.name;
    }
  }
  // The mean of the participation ratio is known.
  const double exact = (8.0 * 16.0 + 2.0) / (8.0 + 16.0 + 1.0);
  const MetricValues nulls = null_metrics(8, 16);
  EXPECT_LT(std::abs(1.0 / nulls[Metric::kParticipationRatio] - 1.0 / exact), 0.01);
  EXPECT_TRUE(std::isnan(null_errors(64, 64)[Metric::kStableRank]));
  EXPECT_TRUE(std::isnan(null_errors(1, 64)[Metric::kStableRank]));
}

TEST(NullMetricsTest, OneRowHasTheExactValues) {
  const MetricValues nulls = null_metrics(1, 4096);
  for (const double value : nulls.var_at_k) {
    EXPECT_EQ(value, 1.0);
  }
  EXPECT_EQ(nulls[Metric::kConditionNumber], 1.0);
  EXPECT_EQ(nulls[Metric::kStableRank], 1.0);
  EXPECT_EQ(nulls[Metric::kRank99], 1.0);
  EXPECT_EQ(nulls[Metric::kTraceLog], 0.0);
  EXPECT_EQ(nulls[Metric::kGini], 0.0);
  EXPECT_TRUE(std::isnan(nulls[Metric::kHillAlpha]));
  EXPECT_TRUE(std::isnan(nulls[Metric::kSpectralEntropy]));
  EXPECT_TRUE(std::isnan(null_metrics(1, 1)[Metric::kConditionNumber]));
}

TEST(NullMetricsTest, DrawnNoiseComesOutAsPredicted) {
  for (const auto& [p, n] : {std::pair{256, 896}, {256, 256}, {128, 2048}}) {
    SCOPED_TRACE(std::to_string(p) + "x" + std::to_string(n) + ", seeds 1 to 4");
    const MetricValues nulls = null_metrics(p, n);
    for (std::uint32_t seed = 1; seed <= 4; ++seed) {
      std::string reason;
      const MetricValues values =
          derive_metrics(p, n, noise(p, n, seed), SpectrumMode::kDefault, reason);
      EXPECT_EQ(reason, "");
      for (std::size_t i = 4; i < kVarAtK.size(); ++i) {  // k >= 16: the edge has averaged out
        EXPECT_NEAR(values.var_at_k[i] / nulls.var_at_k[i], 1.0, 0.01) << kVarAtK[i];
      }
      const auto near = [&](Metric metric, double relative) {
        const std::string_view name = metric_rows()[static_cast<std::size_t>(metric)].name;
        EXPECT_NEAR(values[metric] / nulls[metric], 1.0, relative) << name << " seed " << seed;
      };
      near(Metric::kStableRank, 0.05);
      near(Metric::kParticipationRatio, 0.01);
      near(Metric::kEffectiveRank, 0.01);
      near(Metric::kEffectiveRankSigma, 0.006);
      near(Metric::kSpectralEntropy, 0.002);
      near(Metric::kRank90, 0.01);
      near(Metric::kRank95, 0.01);
      near(Metric::kRank99, 0.01);
      near(Metric::kGini, 0.02);
      near(Metric::kHillAlpha, 0.03);
      near(Metric::kTraceLog, p == n ? 0.06 : 0.02);
      if (p != n) {
        near(Metric::kConditionNumber, 0.05);
      }
      EXPECT_EQ(values[Metric::kNumericalRank], p);
      EXPECT_NEAR(values[Metric::kMpScale], 1.0, 0.02);
      EXPECT_LE(values[Metric::kMpOutliers], 1.0);
      EXPECT_LE(values[Metric::kMpLowerOutliers], 1.0);
      EXPECT_GT(values[Metric::kMpKs], 0.5 / p);
      EXPECT_LT(values[Metric::kMpKs], 7.0 / p);
    }
  }
}

// Position of an outlier: n (1 + t^2)(g + t^2)/t^2 (Benaych-Georges and Nadakuditi 2011); none
// below t = g^(1/4) (Baik, Ben Arous and Peche 2005).
TEST(NullMetricsTest, DirectionsAboveTheThresholdAreOutliers) {
  const int p = 256;
  const int n = 896;
  const double g = static_cast<double>(p) / n;
  const std::vector<double> strong = {3.0, 2.5, 2.0};
  for (std::uint32_t seed = 11; seed <= 14; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::string reason;
    const MatrixReport report = noise(p, n, seed, strong);
    const MetricValues values = derive_metrics(p, n, report, SpectrumMode::kDefault, reason);
    EXPECT_EQ(values[Metric::kMpOutliers], 3.0);
    EXPECT_EQ(values[Metric::kMpLowerOutliers], 0.0);
    EXPECT_NEAR(values[Metric::kMpScale], 1.0, 0.02) << "the bulk sets the scale";
    for (std::size_t i = 0; i < strong.size(); ++i) {
      const double square = strong[i] * strong[i];
      const double predicted = n * (1.0 + square) * (g + square) / square;
      EXPECT_NEAR(report.sigma[i] * report.sigma[i] / predicted, 1.0, 0.1);
    }
    const MatrixReport hidden = noise(p, n, seed, {0.4, 0.4, 0.4});
    EXPECT_EQ(derive_metrics(p, n, hidden, SpectrumMode::kDefault, reason)[Metric::kMpOutliers],
              0.0);
  }
}

TEST(NullCacheTest, OneEntryForBothOrientations) {
  NullCache cache;
  const MetricValues& first = cache.of(100, 300);
  EXPECT_EQ(&first, &cache.of(300, 100));
  EXPECT_NE(&first, &cache.of(100, 301));
  EXPECT_EQ(first.var_at_k, null_metrics(100, 300).var_at_k);
}

TEST(NullCacheTest, ThreadsSeeTheSameEntries) {
  NullCache cache;
  std::vector<const MetricValues*> seen(8);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 10; n < 60; ++n) {
        cache.of(5, n);
      }
      seen[i] = &cache.of(5, 11);
    });
  }
  threads.clear();
  for (const MetricValues* entry : seen) {
    EXPECT_EQ(entry, seen[0]);
  }
}

}  // namespace
}  // namespace vindex::statistics::nulls_test
