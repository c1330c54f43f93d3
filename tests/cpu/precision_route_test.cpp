// `default` on spectra of which a float32 Gram matrix alone loses most values: which route the CPU
// takes from the start, and that it keeps the promise and its own error, against float64 LAPACK.
#include "planted_faults.hpp"

#include "backend/backend.hpp"
#include "cpu/cpu_backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::test::precision_route_test {
namespace {

constexpr std::int64_t kP = 544;

MatrixReport measured(const FloatMatrix& matrix, const MeasureOptions& options = {}) {
  const auto backend = cpu::make_cpu_backend(1, "", cpu::MatrixUnitPreference::kNone);
  const auto input =
      make_memory_input(decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols));
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  backend->measure(batch, options, 0, out);
  return out[0];
}

/// The report, held against LAPACK.
MatrixReport expect_promise(const FloatMatrix& matrix, const std::string& method) {
  const std::vector<double> reference = reference_singular_values(matrix);
  const MatrixReport report = measured(matrix);
  EXPECT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
  EXPECT_EQ(report.method, method);
  EXPECT_FALSE(report.escalated);
  EXPECT_EQ(report.sigma.size(), reference.size());
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double error = std::abs(report.sigma[i] - reference[i]);
    EXPECT_LE(error, report.sigma_error) << i;
    EXPECT_LE(error, 4e-6 * reference[0]) << i;
    EXPECT_LE(error, i < 64 ? 1e-5 * reference[i] : reference[0]) << i;
  }
  return report;
}

FloatMatrix with_law(std::int64_t rows, std::int64_t cols,
                     double (*law)(double share, double index)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < kP; ++i) {
    values.push_back(law(static_cast<double>(i) / (kP - 1), static_cast<double>(i)));
  }
  return matrix_with_spectrum(rows, cols, values, 9);
}

TEST(PrecisionRoute, AFallBeyondFloat32IsReducedInFloat64AtFirst) {
  const auto fall = [](double share, double) { return std::pow(3e-3, share); };
  expect_promise(with_law(4 * kP, kP, fall), "gram32+band64+cpu");
  expect_promise(with_law(kP, 4 * kP, fall), "gram32+band64+cpu");
  const auto steep = [](double, double index) { return 1.0 / (1.0 + index); };
  expect_promise(with_law(4 * kP, kP, steep), "gram32+band64+cpu");
  FloatMatrix small = with_law(4 * kP, kP, fall);
  for (float& value : small.values) {
    value *= 0x1p-60F;
  }
  expect_promise(small, "gram32+band64+cpu");
}

TEST(PrecisionRoute, AClusterFarBelowOneValueIsSummedInFloat64) {
  expect_promise(
      with_law(4 * kP, kP, [](double, double index) { return index > 0.0 ? 1e-3 : 1.0; }),
      "gram64+band64+cpu");
}

TEST(PrecisionRoute, AFallBeyondFloat64GoesToQrAsStrictDoes) {
  const auto grams_of = [](const FloatMatrix& matrix, SpectrumMode mode,
                           const std::string& method) {
    SCOPED_TRACE(matrix.rows);
    using cpu::planted_faults::Planted;
    const Planted counted(cpu::planted_faults::Stage::kValues, cpu::planted_faults::Fault::kNone);
    MeasureOptions options;
    options.mode = mode;
    const MatrixReport report = measured(matrix, options);
    EXPECT_EQ(report.method, method);
    EXPECT_EQ(report.escalated, mode == SpectrumMode::kDefault);
    return Planted::count();
  };
  for (const std::int64_t rows : {kP, 2 * kP}) {
    // One Gram matrix, as long as float64 is what the first rows ask for.
    const FloatMatrix beyond =
        with_law(rows, kP, [](double share, double) { return std::pow(1e-8, share); });
    EXPECT_EQ(grams_of(beyond, SpectrumMode::kStrict, "qr+bidiag64+cpu"), 1);
    EXPECT_EQ(grams_of(beyond, SpectrumMode::kDefault, "qr+bidiag64+cpu"), 1);
    EXPECT_EQ(measured(beyond).sigma, measured(beyond, {.mode = SpectrumMode::kStrict}).sigma);
  }
}

TEST(PrecisionRoute, NoiseAndHeavyTailsStayInFloat32) {
  expect_promise(gaussian_matrix(3 * kP, kP, 4, 0.02), "gram32+band32+cpu");
  expect_promise(with_law(3 * kP, kP,
                          [](double share, double index) {
                            return std::pow(1.0 + index, -0.3) * (1.0 - 0.9 * share);
                          }),
                 "gram32+band32+cpu");
}

TEST(PrecisionRoute, LostValuesAreFoundAgainBesideLinesThatAreZero) {
  for (const bool is_turned : {false, true}) {
    // With as many rows as columns that are not zero.
    FloatMatrix noise = gaussian_matrix(720, 720, is_turned ? 6 : 7, 0.02);
    for (std::int64_t r = 0; r < noise.rows; ++r) {
      for (std::int64_t c = 0; c < noise.cols; c += r % 8 == 0 ? 1 : 8) {
        noise.at(r, c) = 0.0F;
      }
    }
    const MatrixReport report =
        expect_promise(is_turned ? transposed(noise) : noise, "gram32+band32+band64+cpu");
    EXPECT_EQ(report.sigma.back(), 0.0);
  }
}

}  // namespace
}  // namespace vindex::test::precision_route_test
