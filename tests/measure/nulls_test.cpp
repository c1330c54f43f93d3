// The nulls against recorded and fresh draws of noise, against the limit law, and each other.
#include "measure/noise_draws.hpp"
#include "measure/null_table.hpp"

#include <vindex/measure/metrics.hpp>

#include <cblas.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

// LAPACK; OpenBLAS holds it, its headers declare it only with LAPACKE.
extern "C" void dsyevd_(const char* job, const char* part, const int* size, double* matrix,
                        const int* stride, double* values, double* work, const int* work_size,
                        int* integers, const int* integers_size, int* info);

namespace vindex::measure {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Computed apart from this program: x = a + (b-a) sin^2 t, 4e5 points of the density, var_at_k by
// interpolation of the cumulative mass from the top. Columns as printed there, so that half a unit
// of the last digit is the tolerance.
struct TableRow {
  const char* matrix;
  std::int64_t p, n;
  double var_at[7];  // k = 1 8 16 32 64 128 256
  double effective_rank_over_p, effective_rank_sigma, participation_over_p, stable_rank, condition,
      gini, hill;
};
// clang-format off
const std::vector<TableRow> kTable = {
    {"K2/DSv3 expert", 2048, 7168, {0.00114, 0.00904, 0.01791, 0.03525, 0.06871, 0.13183, 0.24632}, 0.8669, 1968.0, 0.7778, 869.7, 3.297, 0.3030, 3.29},
    {"K2/DSv3 dense MLP", 7168, 18432, {0.00037, 0.00292, 0.00581, 0.01153, 0.02277, 0.04465, 0.08652}, 0.8233, 6772.7, 0.7200, 2719.2, 4.314, 0.3512, 2.95},
    {"q_a_proj", 1536, 7168, {0.00139, 0.01094, 0.02165, 0.04256, 0.08277, 0.15821, 0.29368}, 0.8984, 1492.0, 0.8235, 717.7, 2.724, 0.2635, 3.65},
    {"K2 q_b_proj", 1536, 12288, {0.00119, 0.00940, 0.01864, 0.03677, 0.07191, 0.13870, 0.26139}, 0.9394, 1511.1, 0.8889, 838.4, 2.094, 0.2023, 4.47},
    {"DSv3 q_b_proj", 1536, 24576, {0.00101, 0.00805, 0.01599, 0.03166, 0.06227, 0.12124, 0.23206}, 0.9692, 1523.8, 0.9412, 983.0, 1.667, 0.1436, 5.88},
    {"kv_a_proj_with_mqa", 576, 7168, {0.00284, 0.02235, 0.04407, 0.08616, 0.16611, 0.31269, 0.56422}, 0.9606, 570.1, 0.9256, 349.7, 1.791, 0.1626, 5.31},
    {"K2 kv_b_proj", 512, 16384, {0.00269, 0.02128, 0.04213, 0.08290, 0.16152, 0.30938, 0.57487}, 0.9845, 510.0, 0.9697, 369.7, 1.429, 0.1017, 7.85},
    {"DSv3 kv_b_proj", 512, 32768, {0.00246, 0.01953, 0.03878, 0.07666, 0.15044, 0.29160, 0.55300}, 0.9922, 511.0, 0.9846, 404.5, 1.286, 0.0720, 10.6},
    {"K2 o_proj", 7168, 8192, {0.00052, 0.00414, 0.00822, 0.01626, 0.03200, 0.06233, 0.11943}, 0.6456, 6055.9, 0.5333, 1913.6, 29.97, 0.5101, 2.23},
    {"DSv3 o_proj", 7168, 16384, {0.00038, 0.00305, 0.00608, 0.01206, 0.02381, 0.04665, 0.09025}, 0.8035, 6715.3, 0.6957, 2596.7, 4.907, 0.3714, 2.83},
    {"K2 router", 384, 7168, {0.00392, 0.03078, 0.06062, 0.11822, 0.22694, 0.42382, 0.75174}, 0.9736, 381.4, 0.9492, 253.2, 1.602, 0.1330, 6.26},
    {"DSv3 router", 256, 7168, {0.00548, 0.04293, 0.08441, 0.16418, 0.31362, 0.58002, 1.0}, 0.9823, 254.8, 0.9655, 181.1, 1.466, 0.1087, 7.42},
    {"K2 embed/lm_head", 7168, 163840, {0.00020, 0.00163, 0.00325, 0.00647, 0.01288, 0.02555, 0.05046}, 0.9784, 7128.3, 0.9581, 4902.6, 1.529, 0.1203, 6.81},
    {"DSv4-Pro expert", 3072, 7168, {0.00089, 0.00702, 0.01392, 0.02746, 0.05368, 0.10349, 0.19500}, 0.8071, 2882.6, 0.7000, 1122.0, 4.791, 0.3678, 2.86},
    {"DSv4-Flash expert", 2048, 4096, {0.00142, 0.01115, 0.02202, 0.04319, 0.08367, 0.15893, 0.29199}, 0.7788, 1896.6, 0.6667, 702.8, 5.828, 0.3955, 2.71},
    {"Kimi-K3 expert", 3072, 3584, {0.00120, 0.00947, 0.01874, 0.03680, 0.07147, 0.13635, 0.25237}, 0.6514, 2610.2, 0.5385, 828.3, 25.96, 0.5055, 2.24},
    {"Qwen3-235B expert", 1536, 4096, {0.00168, 0.01324, 0.02612, 0.05112, 0.09874, 0.18661, 0.33986}, 0.8290, 1454.7, 0.7273, 590.8, 4.160, 0.3452, 2.99},
    {"Qwen3-30B-A3B expert", 768, 2048, {0.00335, 0.02612, 0.05112, 0.09874, 0.18661, 0.33986, 0.57990}, 0.8290, 727.4, 0.7273, 295.4, 4.160, 0.3452, 2.99},
    {"Mixtral / Llama-3-8B MLP", 4096, 14336, {0.00057, 0.00455, 0.00904, 0.01791, 0.03525, 0.06871, 0.13183}, 0.8669, 3936.0, 0.7778, 1739.5, 3.297, 0.3030, 3.29},
    {"gpt-oss down", 2880, 2880, {0.00138, 0.01088, 0.02149, 0.04212, 0.08158, 0.15484, 0.28420}, 0.6065, 2318.5, 0.5, 720.0, kNaN, 0.5404, 2.12},
    {"Llama-3-70B MLP", 8192, 28672, {0.00029, 0.00228, 0.00455, 0.00904, 0.01791, 0.03525, 0.06871}, 0.8669, 7871.9, 0.7778, 3478.9, 3.297, 0.3030, 3.29},
    {"Llama-405B MLP", 16384, 53248, {0.00015, 0.00118, 0.00234, 0.00467, 0.00928, 0.01837, 0.03614}, 0.8574, 15689.4, 0.7647, 6778.4, 3.491, 0.3140, 3.21},
    {"Llama-8B q/o", 4096, 4096, {0.00097, 0.00768, 0.01522, 0.02996, 0.05842, 0.11216, 0.20987}, 0.6065, 3297.4, 0.5, 1024.0, kNaN, 0.5404, 2.12},
    {"Llama-8B k/v", 1024, 4096, {0.00218, 0.01714, 0.03375, 0.06588, 0.12668, 0.23754, 0.42665}, 0.8825, 989.4, 0.8, 455.1, 3.000, 0.2840, 3.46},
    {"Qwen3-8B / Bonsai-8B MLP", 4096, 12288, {0.00061, 0.00481, 0.00955, 0.01889, 0.03715, 0.07230, 0.13835}, 0.8465, 3906.2, 0.75, 1646.3, 3.732, 0.3263, 3.12},
    {"BitNet-2B4T MLP", 2560, 6912, {0.00101, 0.00796, 0.01576, 0.03105, 0.06061, 0.11655, 0.21860}, 0.8310, 2426.5, 0.7297, 989.4, 4.110, 0.3432, 3.00},
    {"Gemma4-E2B MLP", 1536, 6144, {0.00146, 0.01149, 0.02272, 0.04461, 0.08662, 0.16507, 0.30493}, 0.8825, 1484.1, 0.8, 682.7, 3.000, 0.2840, 3.46},
};
// clang-format on

// What finite size adds to the limit: 1.4 % at the edges of the smallest shapes here, else a tenth
// of a per cent, and half a digit of the table.
void expect_near_limit(double value, double printed, double unit, double relative,
                       const TableRow& row, const char* name) {
  EXPECT_NEAR(value, printed, 0.55 * unit + relative * printed) << row.matrix << " " << name;
}

TEST(NullMetricsTest, TendToTheLimitLawForEveryShape) {
  ASSERT_EQ(kTable.size(), 27U);
  const std::size_t columns[7] = {0, 3, 4, 5, 6, 7, 8};
  for (const TableRow& row : kTable) {
    const MetricValues nulls = null_metrics(row.p, row.n);
    for (std::size_t i = 0; i < 7; ++i) {
      expect_near_limit(nulls.var_at_k[columns[i]], row.var_at[i], 1e-5, i == 0 ? 4e-3 : 2e-3, row,
                        "var_at_k");
    }
    const auto p = static_cast<double>(row.p);
    expect_near_limit(nulls[Metric::kEffectiveRank] / p, row.effective_rank_over_p, 1e-4, 5e-4, row,
                      "erank2");
    expect_near_limit(nulls[Metric::kEffectiveRankSigma], row.effective_rank_sigma, 0.1, 5e-4, row,
                      "erank");
    expect_near_limit(nulls[Metric::kParticipationRatio] / p, row.participation_over_p, 1e-4, 1e-3,
                      row, "PR");
    expect_near_limit(nulls[Metric::kStableRank], row.stable_rank, 0.1, 0.014, row, "stable rank");
    if (std::isnan(row.condition)) {
      EXPECT_TRUE(std::isnan(nulls[Metric::kConditionNumber])) << row.matrix;
    } else {
      expect_near_limit(nulls[Metric::kConditionNumber], row.condition,
                        row.condition > 10.0 ? 1e-2 : 1e-3, row.condition > 10.0 ? 0.05 : 0.015,
                        row, "condition");
    }
    expect_near_limit(nulls[Metric::kGini], row.gini, 1e-4, 2e-3, row, "gini");
    expect_near_limit(nulls[Metric::kHillAlpha], row.hill, row.hill > 10.0 ? 0.1 : 1e-2, 8e-3, row,
                      "hill");
    EXPECT_EQ(nulls[Metric::kNumericalRank], p);
  }
}

TEST(NullMetricsTest, FiguresOfTheContract) {
  EXPECT_NEAR(null_metrics(7168, 2048).var_at_k[6], 0.0687, 5e-5);
  EXPECT_NEAR(null_metrics(384, 7168).var_at_k[6], 0.227, 5e-4);
  EXPECT_NEAR(null_metrics(4096, 12288).var_at_k[6], 0.0371, 7e-5);
}

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
  report.status = Status::kMeasured;
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
    EXPECT_EQ(nulls[Metric::kStableRank], 1.0 / nulls.var_at_k[0]);
    EXPECT_NEAR(nulls[Metric::kSpectralEntropy],
                std::log(nulls[Metric::kEffectiveRank]) / std::log(p), 1e-12);
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
      EXPECT_LE(drawn.error, 0.0025 * std::abs(drawn.mean)) << "too few draws to tell";
      EXPECT_LE(std::abs(null - drawn.mean), kPromised * std::abs(drawn.mean))
          << shape.rows << "x" << shape.cols << " " << drawn.metric << " null " << null << " mean "
          << drawn.mean << " +- " << drawn.error;
    }
    EXPECT_EQ(compared, shape.rows == shape.cols ? 21U : 22U);
  }
}

TEST(NullTableTest, ThePageIsMadeOfTheRecordedDraws) {
  EXPECT_EQ(test::null_page(test::read_null_draws(VINDEX_NULL_DRAWS)),
            test::text_of_file(VINDEX_NULL_PAGE))
      << "docs/nulls.md is out of date: null_table page tests/data/null_draws.csv > docs/nulls.md";
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
    const double value = derive_metrics(kRows, kCols, noise(kRows, kCols, seed), Mode::kDefault,
                                        reason)[Metric::kConditionNumber];
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
      const MetricValues values = derive_metrics(p, n, noise(p, n, seed), Mode::kDefault, reason);
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
    const MetricValues values = derive_metrics(p, n, report, Mode::kDefault, reason);
    EXPECT_EQ(values[Metric::kMpOutliers], 3.0);
    EXPECT_EQ(values[Metric::kMpLowerOutliers], 0.0);
    EXPECT_NEAR(values[Metric::kMpScale], 1.0, 0.02) << "the bulk sets the scale";
    for (std::size_t i = 0; i < strong.size(); ++i) {
      const double square = strong[i] * strong[i];
      const double predicted = n * (1.0 + square) * (g + square) / square;
      EXPECT_NEAR(report.sigma[i] * report.sigma[i] / predicted, 1.0, 0.1);
    }
    const MatrixReport hidden = noise(p, n, seed, {0.4, 0.4, 0.4});
    EXPECT_EQ(derive_metrics(p, n, hidden, Mode::kDefault, reason)[Metric::kMpOutliers], 0.0);
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
}  // namespace vindex::measure
