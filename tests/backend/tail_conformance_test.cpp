// kTail of every back end on spectra whose smallest values a float32 Gram loses: the same
// judgement, the same promise, the same name, against float64 LAPACK. Sizes that the emulation
// bears; the route is named, so that small sides begin in float32 too.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

namespace vindex::test::tail_conformance_test {
namespace {

/// A slowly falling bulk, outliers above, p / 32 values far below.
std::vector<double> trained_values(std::int64_t p, double condition) {
  std::vector<double> values;
  const std::int64_t below = p / 32;
  for (std::int64_t i = 0; i < p; ++i) {
    const auto place = static_cast<double>(i) / static_cast<double>(p);
    values.push_back((i < 3 ? 4.0 : 1.0) * (1.0 - 0.9 * place));
  }
  for (std::int64_t i = 0; i < below; ++i) {
    const double depth = static_cast<double>(i + 1) / static_cast<double>(below);
    const double edge = values[static_cast<std::size_t>(p - below - 1)];
    values[static_cast<std::size_t>(p - below + i)] =
        edge * std::pow(values[0] / (edge * condition), depth);
  }
  return values;
}

class TailConformance : public BackendTest {
 protected:
  MeasureOptions options(SpectrumMode mode = SpectrumMode::kDefault) const {
    MeasureOptions out = with_mode(mode);
    out.svd_route = GetParam().starts_with("cpu") ? "auto" : "two-stage";
    return out;
  }
  /// The CPU begins small sides in float64, and finds their tails from there.
  bool is_float32_first() const { return !GetParam().starts_with("cpu"); }

  MatrixReport expect_promise(const FloatMatrix& matrix, const MeasureOptions& with) {
    const MatrixReport report = measure_floats(matrix, with);
    EXPECT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    const auto reference = reference_singular_values(matrix);
    double worst = 0.0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
      worst = std::max(worst, std::abs(report.sigma[i] - reference[i]));
    }
    EXPECT_LE(worst, report.sigma_error) << report.method;
    EXPECT_LE(report.sigma_error, 4e-6 * reference[0]) << report.method;
    EXPECT_TRUE(std::is_sorted(report.sigma.rbegin(), report.sigma.rend()));
    EXPECT_TRUE(report.tail_reliable);
    const double strict = 50.0 * static_cast<double>(reference.size()) * 0x1p-52 * reference[0];
    if (reference.back() < 4e-5 * reference[0] || with.mode == SpectrumMode::kStrict) {
      EXPECT_NEAR(report.sigma.back(), reference.back(), strict) << "decided as in strict";
    }
    std::printf("%lld x %lld %-28s error %.1e, answers for %.1e of s_1, smallest to %.1e\n",
                static_cast<long long>(matrix.rows), static_cast<long long>(matrix.cols),
                report.method.c_str(), worst / reference[0], report.sigma_error / reference[0],
                std::abs(report.sigma.back() - reference.back()) / reference.back());
    return report;
  }
};

TEST_P(TailConformance, LostValuesAreFoundAgain) {
  constexpr std::int64_t kP = 130;
  const std::string tail = is_float32_first() ? "gram32+band32+band64+cuda" : "";
  const auto spectrum = [&](std::int64_t rows, std::int64_t cols, const auto& values) {
    return matrix_with_spectrum(rows, cols, values, 7);
  };
  for (const auto& [rows, cols] : {std::pair{2 * kP, kP}, {kP, 3 * kP}, {kP, kP}}) {
    const MatrixReport report =
        expect_promise(spectrum(rows, cols, trained_values(kP, 5e3)), options());
    EXPECT_TRUE(report.method.starts_with(tail)) << report.method;
    EXPECT_FALSE(is_float32_first() && report.escalated);
  }
  EXPECT_TRUE(
      expect_promise(spectrum(kP, kP, trained_values(kP, 1e5)), options()).method.starts_with(tail))
      << "corrected until it is decided";
  // Values in two clusters of the tail, and a flat bulk.
  std::vector<double> clustered(static_cast<std::size_t>(kP), 1.0);
  std::fill(clustered.end() - 6, clustered.end() - 3, 3e-3);
  std::fill(clustered.end() - 3, clustered.end(), 1e-4);
  (void)expect_promise(spectrum(2 * kP, kP, clustered), options());
}

TEST_P(TailConformance, WhatATailCannotHoldEscalates) {
  constexpr std::int64_t kP = 132;
  // More lost values than a tail takes on, and a condition that float64 Grams lose too.
  for (const double condition : {5e3, 1e7, 1e10}) {
    const MatrixReport report = expect_promise(
        matrix_with_spectrum(kP + 20, kP, dlatm1_values(3, condition, kP, 1), 3), options());
    EXPECT_EQ(report.escalated, is_float32_first() || report.method.starts_with("qr"))
        << report.method;
  }
  // Few enough, but residuals never say that the smallest is decided; where they do, after more
  // restarts, it is.
  const MatrixReport beyond =
      expect_promise(matrix_with_spectrum(kP, kP, trained_values(kP, 1e7), 4), options());
  EXPECT_TRUE(beyond.escalated || beyond.method.starts_with("gram64+band64+band64+cpu"))
      << beyond.method;
}

TEST_P(TailConformance, StrictFindsItsTailToo) {
  constexpr std::int64_t kP = 132;
  const FloatMatrix matrix = matrix_with_spectrum(kP + 40, kP, trained_values(kP, 2e4), 5);
  const MatrixReport report = expect_promise(matrix, options(SpectrumMode::kStrict));
  // Of the band, or on the CPU of a triangle.
  const std::string way = is_float32_first() ? "gram64+band64+band64+" : "+band64+";
  EXPECT_NE(report.method.find(way), std::string::npos) << report.method;
}

TEST_P(TailConformance, NoiseOfSquaresAndScalesFarFromOne) {
  const FloatMatrix matrix = gaussian_matrix(160, 160, 21, 0.02);
  const MatrixReport report = expect_promise(matrix, options());
  for (const float scale : {0x1p-60F, 0x1p55F}) {
    FloatMatrix scaled = matrix;
    for (float& value : scaled.values) {
      value *= scale;
    }
    EXPECT_EQ(expect_promise(scaled, options()).method, report.method);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TailConformance, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::tail_conformance_test
