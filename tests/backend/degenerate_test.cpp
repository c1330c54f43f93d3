// Defined results for what is not an ordinary matrix: zero, rank-deficient, vectors, extremes of
// float32, NaN and infinity, encodings without a decoder.
#include "backend_fixture.hpp"

#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace vindex::test::degenerate_test {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();

class Degenerate : public BackendTest {
 protected:
  void expect_strict_values(const FloatMatrix& matrix) {
    const auto reference = reference_singular_values(matrix);
    const auto p = static_cast<double>(reference.size());
    const MatrixReport strict = measure_floats(matrix, with_mode(SpectrumMode::kStrict));
    ASSERT_EQ(strict.status, MatrixStatus::kMeasured) << strict.reason;
    ASSERT_EQ(strict.sigma.size(), reference.size());
    const MatrixReport usual = measure_floats(matrix);
    ASSERT_EQ(usual.status, MatrixStatus::kMeasured) << usual.reason;
    ASSERT_EQ(usual.sigma.size(), reference.size());
    for (std::size_t i = 0; i < reference.size(); ++i) {
      EXPECT_NEAR(strict.sigma[i], reference[i], 50 * p * kEps64 * reference[0]);
      const double tail = reference[i] > 0.0 ? reference[0] / reference[i] : 1e9;
      EXPECT_NEAR(usual.sigma[i], reference[i], (2e-6 + 1e-6 * tail) * reference[0]);
    }
  }
};

TEST_P(Degenerate, ZeroMatrixIsMeasuredWithZeros) {
  const FloatMatrix zero{5, 9, std::vector<float>(45, 0.0F)};
  for (const SpectrumMode mode :
       {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const MatrixReport report = measure_floats(zero, with_mode(mode));
    EXPECT_EQ(report.status, MatrixStatus::kMeasured);
    EXPECT_EQ(report.reason, "zero matrix");
    EXPECT_EQ(report.sigma, std::vector<double>(5, 0.0));
    EXPECT_EQ(report.moments.zeros, 45);
    EXPECT_FALSE(report.escalated);
  }
}

/// Matrices whose smallest singular value is 0 exactly: every product and sum below is exact.
std::vector<NamedMatrix> singular_matrices() {
  std::vector<NamedMatrix> out;
  const auto add = [&](const char* name, FloatMatrix matrix) {
    out.push_back({name, false, std::move(matrix)});
  };
  FloatMatrix doubled = gaussian_matrix(70, 48, 4);
  for (std::int64_t r = 0; r < doubled.rows; ++r) {
    doubled.at(r, 17) = 2.0F * doubled.at(r, 5);
  }
  add("a column twice another", doubled);
  add("a row twice another", transposed(doubled));
  for (const std::int64_t rank : {1, 3, 40}) {
    FloatMatrix product{60, 64, std::vector<float>(60 * 64, 0.0F)};
    const FloatMatrix a = gaussian_matrix(60, rank, 5, 16.0);
    const FloatMatrix b = gaussian_matrix(rank, 64, 6, 16.0);
    for (std::int64_t r = 0; r < 60; ++r) {
      for (std::int64_t c = 0; c < 64; ++c) {
        for (std::int64_t k = 0; k < rank; ++k) {
          product.at(r, c) += std::nearbyint(a.at(r, k)) * std::nearbyint(b.at(k, c));
        }
      }
    }
    add("integers of low rank", product);
  }
  FloatMatrix cyclic{40, 40, std::vector<float>(1600, 0.0F)};
  for (std::int64_t r = 0; r < 40; ++r) {
    cyclic.at(r, r) = 1.0F;
    cyclic.at(r, (r + 1) % 40) = -1.0F;
  }
  add("rows that sum to zero", cyclic);
  return out;
}

TEST_P(Degenerate, AnExactlySingularMatrixHasNoConditionNumber) {
  for (const NamedMatrix& one : singular_matrices()) {
    for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      SCOPED_TRACE(one.name);
      const MatrixReport report = measure_floats(one.matrix, with_mode(mode));
      ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
      EXPECT_LE(report.sigma.back(), report.sigma_error) << report.method;
      std::string reason;
      const statistics::MetricValues values =
          statistics::derive_metrics(one.matrix.rows, one.matrix.cols, report, mode, reason);
      EXPECT_TRUE(std::isnan(values[statistics::Metric::kConditionNumber])) << report.method;
      EXPECT_TRUE(std::isnan(values[statistics::Metric::kTraceLog])) << report.method;
      EXPECT_NE(reason.find(report.sigma.back() > 0.0 ? "sigma_min within its error"
                                                      : "zero singular value"),
                std::string::npos)
          << reason;
      if (!std::isnan(values[statistics::Metric::kPlXmin])) {
        EXPECT_GT(values[statistics::Metric::kPlXmin], report.sigma_error * report.sigma_error);
      }
    }
  }
}

TEST_P(Degenerate, DeadNeuronsGiveExactZeros) {
  FloatMatrix matrix = gaussian_matrix(40, 90, 3);
  for (std::int64_t c = 0; c < 90; ++c) {
    matrix.at(7, c) = 0.0F;
    matrix.at(23, c) = 0.0F;
  }
  for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    const MatrixReport report = measure_floats(matrix, with_mode(mode));
    EXPECT_EQ(report.sigma[39], 0.0);
    EXPECT_EQ(report.sigma[38], 0.0);
    EXPECT_GT(report.sigma[37], 1.0);
  }
  expect_strict_values(matrix);
}

TEST_P(Degenerate, RepeatedRowsAreRankDeficientWithinRounding) {
  FloatMatrix matrix = gaussian_matrix(30, 80, 4);
  for (std::int64_t c = 0; c < 80; ++c) {
    matrix.at(29, c) = matrix.at(3, c);
  }
  expect_strict_values(matrix);
  FloatMatrix ones{24, 60, std::vector<float>(24 * 60, 1.0F)};
  expect_strict_values(ones);
}

TEST_P(Degenerate, SmallShapes) {
  for (const auto& [rows, cols] : {std::pair{1, 1},
                                   {1, 7},
                                   {7, 1},
                                   {1, 5000},
                                   {5000, 1},
                                   {2, 2},
                                   {2, 3},
                                   {3, 2},
                                   {3, 3},
                                   {33, 32},
                                   {32, 33},
                                   {64, 64}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols));
    expect_strict_values(gaussian_matrix(rows, cols, 5));
  }
}

TEST_P(Degenerate, ExtremesOfFloat32NeitherOverflowNorVanish) {
  for (const double scale : {1e30, 1e37, 1e-20, 1e-30, 1e-38, 1e-42}) {
    SCOPED_TRACE(scale);
    expect_strict_values(gaussian_matrix(24, 70, 6, scale));
  }
}

TEST_P(Degenerate, OneHugeWeightAmongOrdinaryOnes) {
  FloatMatrix matrix = gaussian_matrix(24, 70, 6);
  matrix.at(3, 3) = 1e30F;
  expect_strict_values(matrix);
}

TEST_P(Degenerate, NonFiniteWeightsAreCountedAndNotMeasured) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    FloatMatrix matrix = gaussian_matrix(20, 700, 7);
    matrix.at(4, 5) = bad;
    matrix.at(19, 699) = bad;
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      const MatrixReport report = measure_floats(matrix, with_mode(mode));
      EXPECT_EQ(report.status, MatrixStatus::kNotFinite);
      EXPECT_EQ(report.moments.nonfinite, 2);
      EXPECT_EQ(report.moments.count, 20 * 700 - 2);
      EXPECT_TRUE(report.sigma.empty());
      EXPECT_FALSE(report.reason.empty());
    }
  }
}

TEST_P(Degenerate, EncodingsWithoutADecoderAreUnsupported) {
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kUnsupported;
  encoding.label = "MYSTERY";
  const std::vector<std::byte> bytes(64);
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 4;
  matrix.cols = 4;
  matrix.codes = bytes.data();
  matrix.row_stride_bytes = 16;
  const auto input = make_memory_input(matrix);
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  backend_->measure(batch, {}, 0, out);
  EXPECT_EQ(out[0].status, MatrixStatus::kUnsupported);
  EXPECT_NE(out[0].reason.find("MYSTERY"), std::string::npos);
}

TEST_P(Degenerate, UnknownRouteIsAUsageError) {
  MeasureOptions options;
  options.svd_route = "no such route";
  EXPECT_THROW(measure_floats(gaussian_matrix(4, 4, 1), options), UsageError);
}

INSTANTIATE_TEST_SUITE_P(Backends, Degenerate, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::degenerate_test
