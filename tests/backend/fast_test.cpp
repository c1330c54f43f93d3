// The promise of `fast`: var_at_k for k <= 64 and the stable rank to 1e-5, between bounds that
// hold.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace vindex::test::fast_test {
namespace {

double sum_of_squares(const std::vector<double>& sigma, std::size_t k) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(k, sigma.size()); ++i) {
    sum += sigma[i] * sigma[i];
  }
  return sum;
}

class Fast : public BackendTest {
 protected:
  /// Largest distance between a bound and the exact var_at_k.
  double expect_bounds_hold(const FloatMatrix& matrix) {
    MeasureOptions options = with_mode(SpectrumMode::kFast);
    if (is_emulated() && std::min(matrix.rows, matrix.cols) > 200) {
      options.svd_route = "library";  // the emulation of tensor cores is slow
    }
    const MatrixReport report = measure_floats(matrix, options);
    EXPECT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    const auto reference = reference_singular_values(matrix);
    EXPECT_EQ(report.sigma.size(), std::min<std::size_t>(64, reference.size()));
    if (!report.bounds.has_value()) {
      ADD_FAILURE() << "no bounds by " << report.method;
      return 0.0;
    }
    for (std::size_t i = 0; i < report.sigma.size(); ++i) {
      EXPECT_LE(std::abs(report.sigma[i] - reference[i]), report.sigma_error + 1e-13 * reference[0])
          << "value " << i << " by " << report.method;
    }
    double total = 0.0;
    for (const float value : matrix.values) {
      total += static_cast<double>(value) * static_cast<double>(value);
    }
    double widest = 0.0;
    for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
      const auto k = static_cast<std::size_t>(kVarAtK[i]);
      if (k > 64) {
        EXPECT_TRUE(std::isnan(report.bounds->var_at_k_lower[i]));
        continue;
      }
      const double exact = sum_of_squares(reference, k) / total;
      const double lower = report.bounds->var_at_k_lower[i];
      const double upper = report.bounds->var_at_k_upper[i];
      EXPECT_LE(lower, exact + 1e-13) << "k " << k << " by " << report.method;
      EXPECT_GE(upper, exact - 1e-13) << "k " << k << " by " << report.method;
      EXPECT_LE(upper - lower, 1e-5) << "k " << k << " by " << report.method;
      EXPECT_NEAR(sum_of_squares(report.sigma, k) / total, exact, 1e-5);
      widest = std::max(widest, upper - lower);
    }
    const double stable_rank = total / (reference[0] * reference[0]);
    EXPECT_LE(report.bounds->stable_rank_lower, stable_rank * (1 + 1e-13));
    EXPECT_GE(report.bounds->stable_rank_upper, stable_rank * (1 - 1e-13));
    EXPECT_LE(report.bounds->stable_rank_upper - report.bounds->stable_rank_lower,
              1e-5 * stable_rank);
    std::printf("fast %lld x %lld: bounds %.1e apart, %s\n", static_cast<long long>(matrix.rows),
                static_cast<long long>(matrix.cols), widest, report.method.c_str());
    return widest;
  }
};

TEST_P(Fast, BoundsHoldOnSmallMatrices) {
  for (const NamedMatrix& one : suite()) {
    SCOPED_TRACE(one.name);
    expect_bounds_hold(one.matrix);
  }
}

TEST_P(Fast, BoundsHoldOnNoise) {
  expect_bounds_hold(gaussian_matrix(560, 1500, 1));
  expect_bounds_hold(gaussian_matrix(700, 540, 2));
}

TEST_P(Fast, BoundsHoldOnASteepSpectrum) {
  std::vector<double> values(540);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / (1.0 + static_cast<double>(i));
  }
  expect_bounds_hold(matrix_with_spectrum(540, 800, values, 3));
}

TEST_P(Fast, BoundsHoldOnSpikesAndAnyScale) {
  FloatMatrix matrix = spiked_matrix(1100, 530, 8, 3.0, 4);
  expect_bounds_hold(matrix);
  for (float& value : matrix.values) {
    value *= 1e-15F;
  }
  expect_bounds_hold(matrix);
}

TEST_P(Fast, BoundsHoldAtLowRank) {
  std::vector<double> values(530, 0.0);
  std::fill(values.begin(), values.begin() + 20, 1.0);
  expect_bounds_hold(matrix_with_spectrum(530, 800, values, 5));
}

TEST_P(Fast, ClusterAcrossTheSixtyFourthValue) {
  std::vector<double> values(530, 0.5);
  std::fill(values.begin(), values.begin() + 40, 1.0);
  expect_bounds_hold(matrix_with_spectrum(530, 700, values, 6));
}

// Sides above 512, where a reduction may end early.

TEST_P(Fast, BoundsHoldOnAPowerLawOfEveryOrientation) {
  std::vector<double> values(640);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::pow(1.0 + static_cast<double>(i), -0.7);
  }
  expect_bounds_hold(matrix_with_spectrum(640, 900, values, 7));
  expect_bounds_hold(matrix_with_spectrum(900, 640, values, 8));
  expect_bounds_hold(matrix_with_spectrum(640, 640, values, 9));
}

TEST_P(Fast, ClustersAroundTheSixtyFourthValueOfLargerMatrices) {
  for (const double width : {0.0, 1e-6, 1e-4, 1e-2}) {
    std::vector<double> values(620);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<double>(i);
      values[i] = i < 45    ? 2.0 - 0.02 * place
                  : i < 110 ? 1.0 - width * (place - 45.0) / 65.0
                            : 0.5 / (1.0 + 0.05 * (place - 110.0));
    }
    expect_bounds_hold(matrix_with_spectrum(620, 800, values, 10));
  }
}

TEST_P(Fast, BoundsHoldWhereAReductionEndsEarly) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation";
  }
  constexpr std::int64_t kShort = 900;
  // Outliers, and a bulk whose 64th value lies in a cluster of that width.
  for (const double width : {1.0, 1e-3, 0.0}) {
    std::vector<double> values(kShort);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<double>(i);
      values[i] = i < 50    ? 8.0 / std::sqrt(1.0 + place)
                  : i < 80  ? 1.0 - 0.3 * width * (place - 50.0) / 30.0
                  : i < 800 ? 0.6 - 0.5 * (place - 80.0) / 720.0
                            : 1e-3;
    }
    const FloatMatrix matrix = matrix_with_spectrum(kShort, 1000, values, 13);
    expect_bounds_hold(matrix);
    // Reductions of the CUDA back end go to their end.
    if (!is_cuda() &&
        width > 0.0) {  // a block of 16 finds thirty equal values only by beginning again
      EXPECT_EQ(measure_floats(matrix, with_mode(SpectrumMode::kFast)).method,
                "gram32+lanczos32+cpu");
    }
  }
}

TEST_P(Fast, AValueManyTimesAtTheTop) {
  std::vector<double> values(620);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 90 ? 1.0 : 0.6 / (1.0 + 0.02 * static_cast<double>(i - 90));
  }
  expect_bounds_hold(matrix_with_spectrum(620, 800, values, 11));
}

TEST_P(Fast, RowsOfUnequalNorm) {
  FloatMatrix matrix = gaussian_matrix(620, 900, 12);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      matrix.at(r, c) *= static_cast<float>(std::exp(-0.01 * static_cast<double>(r)));
    }
  }
  expect_bounds_hold(matrix);
}

// Where one value dominates, `fast` took a float64 Gram that `default` had no need of: the rounding
// of s_1, and that of one strong line, was charged to each of the 64 values.
TEST_P(Fast, OneValueThatDominatesNeedsNoFloat64) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation";
  }
  constexpr std::int64_t kP = 640;
  const FloatMatrix noise = gaussian_matrix(1536, kP, 3, 0.02);
  FloatMatrix row = noise;
  FloatMatrix column = noise;
  FloatMatrix mean = noise;
  for (std::int64_t c = 0; c < kP; ++c) {
    row.at(1100, c) *= 100.0F;
  }
  for (std::int64_t r = 0; r < column.rows; ++r) {
    column.at(r, 77) *= 100.0F;
  }
  for (float& value : mean.values) {
    value = std::abs(value);
  }
  for (const FloatMatrix& matrix : {row, column, mean}) {
    expect_bounds_hold(matrix);
    const MatrixReport report = measure_floats(matrix, with_mode(SpectrumMode::kFast));
    if (GetParam() != "cuda") {
      EXPECT_TRUE(report.method.starts_with("gram32")) << report.method;
      EXPECT_FALSE(report.escalated);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Fast, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::fast_test
