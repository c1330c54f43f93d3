// theta on drawn matrices whose exact angle is known, and where it is defined otherwise.
#include "statistics/spectrum/spectral_theta.hpp"

#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "tests/statistics/null/noise_draws.hpp"

#include <cblas.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

extern "C" void dsyevd_(const char* job, const char* part, const int* size, double* matrix,
                        const int* stride, double* values, double* work, const int* work_size,
                        int* integers, const int* integers_size, int* info);

namespace vindex::statistics::spectral_theta_test {
namespace {

constexpr int kRows = 768;
constexpr int kCols = 2048;

using Matrix = std::vector<double>;  // row-major

double norm_of(const Matrix& matrix) {
  return cblas_dnrm2(static_cast<int>(matrix.size()), matrix.data(), 1);
}

template <typename Law>
Matrix drawn(int rows, int cols, std::uint32_t seed, Law law) {
  std::mt19937_64 engine(seed);
  Matrix out(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
  for (double& value : out) {
    value = law(engine);
  }
  return out;
}

Matrix gaussian(int rows, int cols, std::uint32_t seed) {
  return drawn(rows, cols, seed, std::normal_distribution<double>());
}

/// Gaussian noise and a signal of `rank` directions with `amplitude` times its norm.
Matrix with_signal(int rank, double amplitude, std::uint32_t seed) {
  Matrix out = gaussian(kRows, kCols, seed);
  const Matrix left = gaussian(kRows, rank, seed + 1);
  const Matrix right = gaussian(rank, kCols, seed + 2);
  Matrix signal(out.size());
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kRows, kCols, rank, 1.0, left.data(), rank,
              right.data(), kCols, 0.0, signal.data(), kCols);
  cblas_daxpy(static_cast<int>(out.size()), amplitude * norm_of(out) / norm_of(signal),
              signal.data(), 1, out.data(), 1);
  return out;
}

SpectralTheta theta_of(const Matrix& matrix, int p, int n) {
  openblas_set_num_threads(1);
  std::vector<double> gram(static_cast<std::size_t>(p) * static_cast<std::size_t>(p));
  cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, p, n, 1.0, matrix.data(), n, 0.0,
              gram.data(), p);
  std::vector<double> values(static_cast<std::size_t>(p));
  const int work_size = 4 * p + 64 * p;
  std::vector<double> work(static_cast<std::size_t>(work_size));
  std::vector<int> integers(16);
  const int integers_size = 16;
  int info = 0;
  dsyevd_("N", "U", &p, gram.data(), &p, values.data(), work.data(), &work_size, integers.data(),
          &integers_size, &info);
  EXPECT_EQ(info, 0);
  std::vector<double> sigma;
  for (auto value = values.rbegin(); value != values.rend(); ++value) {
    sigma.push_back(std::sqrt(std::max(0.0, *value)));
  }
  // The Gram of float64 weights loses what lies below 1e-8 of the largest value.
  return spectral_theta(sigma, n, norm_of(matrix) * norm_of(matrix), 1e-7 * sigma.front());
}

TEST(SpectralThetaTest, NoiseOfAnyLawIsAllNoise) {
  for (const auto& [rows, cols] : {std::pair{kRows, kCols}, {512, 512}, {64, 2048}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(cols));
    for (const Matrix& noise :
         {gaussian(rows, cols, 1),
          drawn(rows, cols, 2, std::uniform_real_distribution<double>(-1, 1)),
          drawn(rows, cols, 3, [normal = std::normal_distribution<double>()](auto& engine) mutable {
            return std::round(2.0 * normal(engine));  // quantised
          })}) {
      const SpectralTheta theta = theta_of(noise, rows, cols);
      EXPECT_NEAR(theta.theta, 0.0, rows == 64 ? 1.0 : 0.5);
      EXPECT_EQ(theta.rank_gd, 0.0);
      EXPECT_LE(theta.rank_edge, 1.0);
      EXPECT_FALSE(theta.is_exact_low_rank);
    }
  }
}

// Exact angles: atan(amplitude). Directions below the threshold of detection are lost, so that
// weak signals come out low; many directions move the median, and do so too.
TEST(SpectralThetaTest, TheAngleOfAKnownSignal) {
  for (const auto& [rank, amplitude, expected, within, edge, gd] :
       {std::tuple{8, 0.1, 2.1, 1.5, 6.0, 0.0},
        {8, 0.3, 15.2, 0.4, 8.0, 8.0},
        {8, 1.0, 44.9, 0.5, 8.0, 8.0},
        {8, 3.0, 71.6, 0.2, 8.0, 8.0},
        {64, 0.5, 19.5, 0.7, 64.0, 44.0},
        {64, 1.0, 41.1, 0.5, 64.0, 64.0}}) {
    SCOPED_TRACE("rank " + std::to_string(rank) + " amplitude " + std::to_string(amplitude));
    const SpectralTheta theta = theta_of(with_signal(rank, amplitude, 7), kRows, kCols);
    EXPECT_NEAR(theta.theta, expected, within);
    EXPECT_NEAR(theta.signal, std::sin(theta.theta * std::acos(-1.0) / 180.0), 1e-12);
    EXPECT_NEAR(theta.rank_edge, edge, amplitude < 0.2 ? 3.0 : 0.0);
    EXPECT_NEAR(theta.rank_gd, gd, rank == 64 && amplitude < 0.7 ? 8.0 : 0.0);
  }
}

TEST(SpectralThetaTest, UnevenRowNormsPassForSignal) {  // as docs/measuring/metrics.md says
  Matrix noise = gaussian(kRows, kCols, 21);
  const Matrix scales = gaussian(kRows, 1, 22);
  for (int row = 0; row < kRows; ++row) {
    cblas_dscal(kCols, std::exp(0.3 * scales[static_cast<std::size_t>(row)]),
                noise.data() + static_cast<std::ptrdiff_t>(row) * kCols, 1);
  }
  const SpectralTheta theta = theta_of(noise, kRows, kCols);
  EXPECT_NEAR(theta.theta, 18.2, 1.5);
  EXPECT_NEAR(theta.rank_edge, 90.0, 20.0);
}

TEST(SpectralThetaTest, TheOrderOfRowsAndColumnsDoesNotMatter) {
  constexpr int kP = 96;
  constexpr int kN = 160;
  Matrix matrix = gaussian(kP, kN, 5);
  for (int col = 0; col < kN; ++col) {
    matrix[static_cast<std::size_t>(col)] += 3.0;
  }
  std::vector<int> rows(kP), cols(kN);
  std::iota(rows.begin(), rows.end(), 0);
  std::iota(cols.begin(), cols.end(), 0);
  std::mt19937_64 engine(6);
  std::shuffle(rows.begin(), rows.end(), engine);
  std::shuffle(cols.begin(), cols.end(), engine);
  Matrix moved;
  for (const int row : rows) {
    for (const int col : cols) {
      moved.push_back(matrix[static_cast<std::size_t>(row * kN + col)]);
    }
  }
  const SpectralTheta theta = theta_of(matrix, kP, kN);
  EXPECT_GT(theta.theta, 5.0);
  EXPECT_NEAR(theta_of(moved, kP, kN).theta, theta.theta, 1e-9);
}

TEST(SpectralThetaTest, ByHandForThreeValues) {
  // Square: the median of the law is 0.6528; unit = 1 / sqrt(0.6528) = 1.2377, edge 2.4754.
  const std::vector<double> sigma = {5.0, 1.0, 0.5};
  const SpectralTheta theta = spectral_theta(sigma, 3, 26.25, 0.0);
  const double unit = 1.0 / std::sqrt(0.65275);
  const double z2 = 25.0 / (unit * unit);
  const double shrunk2 = (z2 - 4.0) * unit * unit;  // (z^2 - 2)^2 - 4 = z^2 (z^2 - 4)
  EXPECT_NEAR(theta.signal, std::sqrt(shrunk2 / 26.25), 1e-4);
  EXPECT_EQ(theta.rank_edge, 1.0);
  EXPECT_EQ(theta.rank_gd, 1.0);
  EXPECT_NEAR(theta.noise, unit / std::sqrt(3.0), 1e-4);
}

TEST(SpectralThetaTest, DegenerateSpectra) {
  const SpectralTheta low =
      spectral_theta(std::vector<double>{3.0, 2.0, 0.0, 0.0, 0.0}, 9, 13.0, 0.0);
  EXPECT_TRUE(low.is_exact_low_rank);
  EXPECT_EQ(low.theta, 90.0);
  EXPECT_EQ(low.rank_edge, 2.0);
  EXPECT_EQ(low.rank_gd, 2.0);
  // What is smaller than the route's error is no bulk.
  EXPECT_TRUE(spectral_theta(std::vector<double>{3.0, 1e-6, 1e-6}, 9, 9.0, 2e-6).is_exact_low_rank);
  EXPECT_FALSE(
      spectral_theta(std::vector<double>{3.0, 1e-6, 1e-6}, 9, 9.0, std::nan("")).is_exact_low_rank);
  EXPECT_NEAR(spectral_theta(std::vector<double>(64, 2.0), 64, 256.0, 0.0).theta, 0.0, 0.0)
      << "all equal";
  for (const auto& sigma :
       {std::vector<double>{2.0}, std::vector<double>{0.0, 0.0, 0.0}, std::vector<double>{}}) {
    const double norm = sigma.empty() ? 0.0 : sigma[0] * sigma[0];
    EXPECT_TRUE(std::isnan(spectral_theta(sigma, 5, norm, 0.0).theta));
  }
  EXPECT_TRUE(
      std::isnan(spectral_theta(std::vector<double>{1.0, 1.0}, 5, std::nan(""), 0.0).theta));
}

TEST(ThetaNullTest, DrawnNoiseHasThatMean) {
  for (const auto& [rows, cols, draws] :
       {std::tuple{16, 30, 4000}, {20, 20, 3000}, {40, 700, 2000}, {100, 300, 1500}}) {
    for (const test::DrawnMean& drawn : test::drawn_means(rows, cols, draws, 31)) {
      if (drawn.metric == "theta") {
        EXPECT_NEAR(theta_null(rows, cols), drawn.mean, 4.0 * drawn.error) << rows << "x" << cols;
      }
    }
  }
  EXPECT_LT(theta_null(2048, 7168), 0.02);
  EXPECT_GT(theta_null(2048, 7168), 0.001);
}

// Below 16 values it is drawn for the shape; there is no second answer.
TEST(ThetaNullTest, OfFewValuesTheTableSaysNothing) {
  for (const std::int64_t p : {2, 5, 15}) {
    EXPECT_TRUE(std::isnan(theta_null(p, 16))) << p;
    EXPECT_FALSE(std::isnan(null_metrics(p, 16)[Metric::kTheta])) << p;
  }
  EXPECT_EQ(theta_null(16, 16), null_metrics(16, 16)[Metric::kTheta]);
  EXPECT_GT(theta_null(16, 1000000), 0.0);
}

TEST(ThetaMetricTest, StandsAmongTheMetrics) {
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.sigma = {4.0, 2.0, 0.0, 0.0, 0.0};
  report.moments.sum_squares = 20.0;
  std::string reason;
  const MetricValues values = derive_metrics(5, 7, report, SpectrumMode::kDefault, reason);
  EXPECT_EQ(values[Metric::kTheta], 90.0);
  EXPECT_EQ(values[Metric::kSignal], 1.0);
  EXPECT_EQ(values[Metric::kRankEdge], 2.0);
  EXPECT_EQ(reason, "exact low rank: theta is 90; zero singular value; no tail to fit");
  const MetricValues fast = derive_metrics(5, 7, report, SpectrumMode::kFast, reason);
  EXPECT_TRUE(std::isnan(fast[Metric::kTheta]));
  EXPECT_TRUE(std::isnan(null_metrics(1, 7)[Metric::kTheta]));
}

}  // namespace
}  // namespace vindex::statistics::spectral_theta_test
