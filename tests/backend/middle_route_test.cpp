// `default` where a float32 Gram alone is not enough: sizes that begin in float32, spectra from
// flat to condition 1e7, against float64 LAPACK. What the route answers for is what it keeps.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

namespace vindex::test::middle_route_test {
namespace {

constexpr double kEps64 = 0x1p-52;

/// Heavy-tailed bulk, outliers above, a few values far below.
std::vector<double> trained_values(std::int64_t p, double condition) {
  std::vector<double> values;
  const auto count = static_cast<double>(p);
  for (std::int64_t i = 0; i < p; ++i) {
    const auto place = static_cast<double>(i);
    values.push_back(std::pow(1.0 + place / 2.0, -0.4) * (1.0 - 0.95 * place / count));
  }
  const std::int64_t below = p / 32;
  for (std::int64_t i = 0; i < below; ++i) {
    const double depth = static_cast<double>(i + 1) / static_cast<double>(below);
    const double edge = values[static_cast<std::size_t>(p - below - 1)];
    values[static_cast<std::size_t>(p - below + i)] =
        edge * std::pow(values[0] / (edge * condition), depth);
  }
  return values;
}

struct Case {
  std::string name;
  std::int64_t rows, cols;
  std::function<FloatMatrix(std::int64_t, std::int64_t)> make;
  std::string method;  ///< that begins so; empty: any
};

Case with_values(const std::string& name, std::int64_t rows, std::int64_t cols,
                 const std::vector<double>& values, const std::string& method = "") {
  return {
      name, rows, cols,
      [values](std::int64_t r, std::int64_t c) { return matrix_with_spectrum(r, c, values, 7); },
      method};
}

class MiddleRoute : public BackendTest {};

std::vector<Case> cases() {
  constexpr std::int64_t kP = 544;
  std::vector<double> half(kP, 1e-3);
  std::fill_n(half.begin(), kP / 2, 1.0);
  const auto noise = [](std::int64_t r, std::int64_t c) { return gaussian_matrix(r, c, 5, 0.02); };
  // Power 0.9: s_64 is near 1e-3 s_1.
  std::vector<double> steep;
  for (std::int64_t i = 0; i < kP; ++i) {
    steep.push_back(std::max(std::pow(0.9, static_cast<double>(i)), 1e-4));
  }
  const auto with_offset = [](std::int64_t r, std::int64_t c) {
    FloatMatrix matrix = gaussian_matrix(r, c, 6, 0.02);
    for (float& value : matrix.values) {
      value += 0.5F;
    }
    return matrix;
  };
  const auto doubled = [](std::int64_t r, std::int64_t c) {
    FloatMatrix matrix = gaussian_matrix(r, c, 8, 0.02);
    const FloatMatrix drift = gaussian_matrix(r, c, 9, 0.0004);
    for (std::int64_t i = 0; i < r; ++i) {
      for (std::int64_t j = 1; j < c; j += 2) {
        matrix.at(i, j) = matrix.at(i, j - 1) + drift.at(i, j);
      }
    }
    return matrix;
  };
  const std::string tail = "gram32+band32+band64+";
  return {{"square noise", kP, kP, noise, tail},
          {"nearly square noise", kP + 3, kP, noise, tail},
          {"wide noise", kP, 3 * kP, noise, "gram32+band32+"},
          with_values("trained", 2 * kP, kP, trained_values(kP, 5e3), tail),
          with_values("square trained", kP, kP, trained_values(kP, 2e4), tail),
          with_values("trained beyond", kP, kP, trained_values(kP, 1e6), ""),
          with_values("geometric", kP + 64, kP, dlatm1_values(3, 5e3, kP, 1)),
          with_values("geometric beyond", kP + 64, kP, dlatm1_values(3, 1e7, kP, 1)),
          with_values("arithmetic", kP + 64, kP, dlatm1_values(4, 1e4, kP, 1), tail),
          with_values("one above", kP + 64, kP, dlatm1_values(1, 1e3, kP, 1)),
          with_values("one below", kP + 64, kP, dlatm1_values(2, 1e3, kP, 1)),
          with_values("two levels", kP + 64, kP, half),
          with_values("steep", 2 * kP, kP, steep),
          {"one strong direction", kP, kP, with_offset, ""},
          {"nearly parallel lines", 4 * kP, kP, doubled, ""}};
}

double largest_error(const std::vector<double>& sigma, const std::vector<double>& reference) {
  double worst = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(sigma[i] - reference[i]));
  }
  return worst;
}

TEST_P(MiddleRoute, HoldsThePromiseAndItsOwnError) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation; tail_conformance_test.cpp has it";
  }
  std::map<std::string, int> methods;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const FloatMatrix matrix = one.make(one.rows, one.cols);
    const auto reference = reference_singular_values(matrix);
    const double largest = reference[0];
    const MatrixReport report = measure_floats(matrix);
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    EXPECT_TRUE(report.method.starts_with(one.method)) << report.method;
    EXPECT_TRUE(report.tail_reliable);
    const double error = largest_error(report.sigma, reference);
    EXPECT_LE(error, 4e-6 * largest);
    EXPECT_LE(error, report.sigma_error);
    EXPECT_TRUE(std::is_sorted(report.sigma.rbegin(), report.sigma.rend()));
    if (one.name != "two levels" && !one.name.starts_with("one ")) {  // no tight clusters
      for (std::size_t i = 0; i < reference.size() && reference[i] >= largest / 100.0; ++i) {
        EXPECT_NEAR(report.sigma[i], reference[i], (i < 64 ? 1e-5 : 2e-4) * reference[i]) << i;
      }
      for (std::size_t i = 0; i < 64; ++i) {
        EXPECT_NEAR(report.sigma[i], reference[i], 1e-5 * reference[i]) << i;
      }
    }
    if (reference.back() < 4e-5 * largest) {
      const double strict = 50.0 * static_cast<double>(reference.size()) * kEps64 * largest;
      EXPECT_NEAR(report.sigma.back(), reference.back(), strict) << "decided as in strict";
    }
    ++methods[report.method];
    std::printf("%-20s %-28s error %.1e, answers for %.1e of s_1, smallest to %.1e\n",
                one.name.c_str(), report.method.c_str(), error / largest,
                report.sigma_error / largest,
                std::abs(report.sigma.back() - reference.back()) / reference.back());
  }
  EXPECT_GE(methods.size(), 3U);
}

TEST_P(MiddleRoute, FirstRoutesAnswerForTheirErrorToo) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation";
  }
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const FloatMatrix matrix = one.make(one.rows, one.cols);
    const auto reference = reference_singular_values(matrix);
    for (const SpectrumMode mode :
         {SpectrumMode::kDefault, SpectrumMode::kStrict, SpectrumMode::kFast}) {
      const MatrixReport report = measure_floats(matrix, with_mode(mode, false));
      ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
      const std::vector<double> kept(
          reference.begin(), reference.begin() + static_cast<std::ptrdiff_t>(report.sigma.size()));
      const double error = largest_error(report.sigma, kept);
      EXPECT_LE(error, report.sigma_error) << report.method;
      if (mode == SpectrumMode::kStrict) {
        EXPECT_LE(error, 50.0 * static_cast<double>(reference.size()) * kEps64 * reference[0]);
      }
    }
  }
}

TEST_P(MiddleRoute, ATailDoesNotDependOnOrientationOrScale) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation";
  }
  const FloatMatrix matrix = gaussian_matrix(560, 549, 21, 0.02);
  const MatrixReport report = measure_floats(matrix);
  EXPECT_TRUE(report.method.starts_with("gram32+band32+band64+")) << report.method;
  const MatrixReport turned = measure_floats(transposed(matrix));
  FloatMatrix scaled = matrix;
  for (float& value : scaled.values) {
    value *= 0x1p-60F;
  }
  const MatrixReport small = measure_floats(scaled);
  EXPECT_EQ(small.method, report.method);
  for (std::size_t i = 0; i < report.sigma.size(); ++i) {
    EXPECT_NEAR(turned.sigma[i], report.sigma[i], 1e-6 * report.sigma[0]);
    EXPECT_NEAR(std::ldexp(small.sigma[i], 60), report.sigma[i], 1e-6 * report.sigma[0]);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, MiddleRoute, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::middle_route_test
