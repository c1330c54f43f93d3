// The same inputs come to the same judgement on both back ends: status, reason, escalation, the
// step that answered, and which values are NaN. On the emulated device.
#include "backend_fixture.hpp"

#include "cpu/cpu_backend.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "tests/emulated_cuda/emulated_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace vindex::test::judgement_conformance_test {
namespace {

/// Which of some values are NaN, as text.
template <typename Values>
std::string nan_set(const Values& values) {
  std::string set;
  for (const double value : values) {
    set += std::isnan(value) ? '-' : 'x';
  }
  return set;
}

/// Everything of a report that is judgement and not arithmetic.
std::string judged(const FloatMatrix& matrix, const MatrixReport& report,
                   const MeasureOptions& options) {
  // An iteration may stand on either Gram.
  const bool is_top = report.method.find("chebyshev") != std::string::npos;
  const std::string step = is_top ? "top" : report.method.substr(0, report.method.find('+'));
  std::string text = "status " + std::to_string(static_cast<int>(report.status)) + " escalated " +
                     std::to_string(static_cast<int>(report.escalated)) + " tail " +
                     std::to_string(static_cast<int>(report.tail_reliable)) + " by " + step +
                     " values " + std::to_string(report.sigma.size());
  std::string reason = report.reason;
  statistics::MetricValues values =
      statistics::derive_metrics(matrix.rows, matrix.cols, report, options.mode, reason);
  if (options.svd_route == "qr") {
    values[statistics::Metric::kCheckGram] = 0.0;  // one of them forms a Gram beside the QR
  }
  text += " metrics " + nan_set(values.scalar) + nan_set(values.var_at_k);
  if (report.bounds) {
    text += " bounds " + nan_set(report.bounds->var_at_k_lower) +
            nan_set(report.bounds->var_at_k_upper) +
            nan_set(std::vector<double>{report.bounds->stable_rank_lower,
                                        report.bounds->stable_rank_upper});
  }
  if (report.sign_flip) {
    text += " draws";
    for (const SignFlipDraw& draw : report.sign_flip->draws) {
      text += " " + nan_set(draw.var_at_k) +
              nan_set(std::vector<double>{draw.stable_rank, draw.effective_rank, draw.mp_outliers});
    }
  }
  if (report.vectors) {
    text += " vectors " + std::to_string(report.vectors->count);
  }
  return text + " reason " + reason;
}

class JudgementConformance : public ::testing::Test {
 protected:
  static MatrixReport measure_on(Backend& backend, const FloatMatrix& matrix,
                                 const MeasureOptions& options) {
    const auto input = make_memory_input(as_encoded(matrix), false, 11);
    MatrixInput* const batch[] = {input.get()};
    std::vector<MatrixReport> out(1);
    backend.measure(batch, options, 0, out);
    return out[0];
  }
  static void expect_alike(const FloatMatrix& matrix, const MeasureOptions& options) {
    static const std::unique_ptr<Backend> kCpu = cpu::make_cpu_backend(1);
    const std::string expected = judged(matrix, measure_on(*kCpu, matrix, options), options);
    EXPECT_EQ(judged(matrix, measure_on(*emulated_cuda_backend(), matrix, options), options),
              expected);
  }
};

FloatMatrix with_dead_rows(FloatMatrix matrix) {
  std::fill_n(matrix.values.begin(), 2 * matrix.cols, 0.0F);
  return matrix;
}

TEST_F(JudgementConformance, DoubtfulAndOddMatricesInEveryMode) {
  FloatMatrix infinite = gaussian_matrix(20, 70, 2);
  infinite.at(4, 5) = std::numeric_limits<float>::infinity();
  infinite.at(5, 5) = std::numeric_limits<float>::quiet_NaN();
  const std::vector<NamedMatrix> matrices = {
      {"noise", false, gaussian_matrix(40, 110, 1)},
      {"noise with more than 64 values", false, gaussian_matrix(150, 70, 1)},
      {"not finite", false, infinite},
      {"zero", false, FloatMatrix{30, 70, std::vector<float>(2100, 0.0F)}},
      {"zero with more than 64 values", false, FloatMatrix{66, 70, std::vector<float>(4620, 0.0F)}},
      {"beyond float32", false, matrix_with_spectrum(90, 40, dlatm1_values(3, 1e3, 40, 1), 5)},
      {"beyond a float64 Gram", false,
       matrix_with_spectrum(40, 90, dlatm1_values(3, 1e8, 40, 1), 5)},
      {"square", false, gaussian_matrix(48, 48, 6)},
      {"rank one", false, FloatMatrix{24, 60, std::vector<float>(1440, 0.5F)}},
      {"dead rows", false, with_dead_rows(gaussian_matrix(30, 80, 7))},
      {"one row", false, gaussian_matrix(1, 40, 8)},
      {"one weight", false, gaussian_matrix(1, 1, 9)},
      {"tiny", false, gaussian_matrix(24, 70, 6, 1e-38)},
      {"huge", false, gaussian_matrix(24, 70, 6, 1e37)}};
  for (const NamedMatrix& one : matrices) {
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      for (const bool escalate : {true, false}) {
        SCOPED_TRACE(one.name + ", mode " + std::to_string(static_cast<int>(mode)) +
                     (escalate ? "" : ", not escalated"));
        MeasureOptions options = with_mode(mode, escalate);
        options.sign_flip_draws = 1;
        options.vectors = 2;
        expect_alike(one.matrix, options);
      }
    }
  }
}

TEST_F(JudgementConformance, QrForEveryMatrix) {
  for (const SpectrumMode mode :
       {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
    MeasureOptions options = with_mode(mode);
    options.svd_route = "qr";
    expect_alike(gaussian_matrix(70, 90, 1), options);
    expect_alike(FloatMatrix{70, 90, std::vector<float>(6300, 0.0F)}, options);
  }
}

// A cluster across the 64th value cannot be told apart by an iteration.
TEST_F(JudgementConformance, FastWithoutProofIsEscalatedOrSaysSo) {
  std::vector<double> values(516, 0.5);
  std::fill(values.begin(), values.begin() + 40, 1.0);
  const FloatMatrix matrix = matrix_with_spectrum(516, 520, values, 6);
  for (const bool escalate : {true, false}) {
    MeasureOptions options = with_mode(SpectrumMode::kFast, escalate);
    options.svd_route = kProofRoute;
    expect_alike(matrix, options);
  }
}

}  // namespace
}  // namespace vindex::test::judgement_conformance_test
