// Every accuracy promise of the metrics contract, on every back end, against float64 LAPACK.
#include "backend_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

namespace vindex::test::conformance_test {
namespace {

constexpr double kEps64 = std::numeric_limits<double>::epsilon();

double share(const std::vector<double>& sigma, std::size_t k, double total) {
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(k, sigma.size()); ++i) {
    sum += sigma[i] * sigma[i];
  }
  return sum / total;
}

double total_squares(const FloatMatrix& matrix) {
  double sum = 0.0;
  for (const float value : matrix.values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

/// exp of the natural-log entropy of weights / their sum.
double entropy_rank(const std::vector<double>& sigma, double power) {
  double sum = 0.0;
  for (const double s : sigma) {
    sum += std::pow(s, power);
  }
  double entropy = 0.0;
  for (const double s : sigma) {
    const double q = std::pow(s, power) / sum;
    entropy -= q > 0.0 ? q * std::log(q) : 0.0;
  }
  return std::exp(entropy);
}

/// Worst |s - ref| as a multiple of p eps64 s_1.
double strict_ratio(const std::vector<double>& sigma, const std::vector<double>& reference) {
  double worst = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    worst = std::max(worst, std::abs(sigma[i] - reference[i]));
  }
  return worst / (static_cast<double>(reference.size()) * kEps64 * reference[0]);
}

/// Worst |s - ref| as a multiple of (2e-6 + 1e-6 s_1/s) s_1.
double default_ratio(const std::vector<double>& sigma, const std::vector<double>& reference) {
  double worst = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double allowed = (2e-6 + 1e-6 * reference[0] / reference[i]) * reference[0];
    worst = std::max(worst, std::abs(sigma[i] - reference[i]) / allowed);
  }
  return worst;
}

double worst_var_error(const std::vector<double>& sigma, const std::vector<double>& reference,
                       double total) {
  double worst = 0.0;
  for (const std::size_t k : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    worst = std::max(worst, std::abs(share(sigma, k, total) - share(reference, k, total)));
  }
  return worst;
}

class Accuracy : public BackendTest {};

TEST_P(Accuracy, DefaultHoldsItsPromiseOnEverySpectrumWithoutEscalating) {
  double worst = 0.0;
  double worst_var = 0.0;
  for (const NamedMatrix& one : suite()) {
    SCOPED_TRACE(one.name);
    const MatrixReport report =
        measure_floats(one.matrix, with_mode(SpectrumMode::kDefault, false));
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    const auto reference = reference_singular_values(one.matrix);
    ASSERT_EQ(report.sigma.size(), reference.size());
    const double ratio = default_ratio(report.sigma, reference);
    const double var = worst_var_error(report.sigma, reference, total_squares(one.matrix));
    EXPECT_LE(ratio, 1.0);
    EXPECT_LE(var, 1e-5);
    worst = std::max(worst, ratio);
    worst_var = std::max(worst_var, var);
  }
  std::printf("default, any spectrum: %.3f of the allowed sigma error, var_at_k %.1e\n", worst,
              worst_var);
}

TEST_P(Accuracy, DefaultIsSharperOnSpectraWithoutTightClusters) {
  double worst_var = 0.0;
  double worst_top = 0.0;
  double worst_upper = 0.0;
  double worst_rank = 0.0;
  for (const NamedMatrix& one : suite()) {
    if (one.clustered) {
      continue;
    }
    SCOPED_TRACE(one.name);
    const MatrixReport report = measure_floats(one.matrix);
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    const auto reference = reference_singular_values(one.matrix);
    const double var = worst_var_error(report.sigma, reference, total_squares(one.matrix));
    EXPECT_LE(var, 1e-6);
    worst_var = std::max(worst_var, var);
    for (std::size_t i = 0; i < reference.size(); ++i) {
      if (reference[i] < reference[0] / 100.0) {
        break;
      }
      const double relative = std::abs(report.sigma[i] - reference[i]) / reference[i];
      EXPECT_LE(relative, i < 64 ? 1e-5 : 2e-4) << "value " << i;
      (i < 64 ? worst_top : worst_upper) = std::max(i < 64 ? worst_top : worst_upper, relative);
    }
    for (const double power : {1.0, 2.0}) {
      const double exact = entropy_rank(reference, power);
      const double relative = std::abs(entropy_rank(report.sigma, power) - exact) / exact;
      EXPECT_LE(relative, 1e-5) << "power " << power;
      worst_rank = std::max(worst_rank, relative);
    }
  }
  std::printf("default: var_at_k %.1e, top 64 %.1e, above s_1/100 %.1e, effective ranks %.1e\n",
              worst_var, worst_top, worst_upper, worst_rank);
}

/// Weights as a checkpoint stores them; decoded by the back end itself for the reference.
struct EncodedWeights {
  decode::Encoding encoding;
  std::vector<std::byte> codes;
  std::vector<float> scales;
  decode::EncodedMatrix view;
};

std::unique_ptr<EncodedWeights> as_bf16(const FloatMatrix& matrix) {
  auto out = std::make_unique<EncodedWeights>();
  out->encoding = decode::plain_encoding(decode::ElementType::kBF16);
  for (const float value : rounded_to_bf16(matrix).values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    out->codes.push_back(static_cast<std::byte>(bits >> 16U));
    out->codes.push_back(static_cast<std::byte>(bits >> 24U));
  }
  out->view.encoding = &out->encoding;
  out->view.rows = matrix.rows;
  out->view.cols = matrix.cols;
  out->view.codes = out->codes.data();
  out->view.row_stride_bytes = 2 * matrix.cols;
  return out;
}

/// e4m3 codes of the weights over the largest of each 128 x 128 block, scales no powers of two.
std::unique_ptr<EncodedWeights> as_e4m3(const FloatMatrix& matrix) {
  constexpr std::int64_t kSide = 128;
  auto out = std::make_unique<EncodedWeights>();
  out->encoding = decode::fp8_block_encoding(kSide, kSide);
  const std::int64_t block_rows = (matrix.rows + kSide - 1) / kSide;
  const std::int64_t block_cols = (matrix.cols + kSide - 1) / kSide;
  out->scales.assign(static_cast<std::size_t>(block_rows * block_cols), 0.0F);
  const auto scale_of = [&](std::int64_t r, std::int64_t c) -> float& {
    return out->scales[static_cast<std::size_t>(r / kSide * block_cols + c / kSide)];
  };
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      scale_of(r, c) = std::max(scale_of(r, c), std::abs(matrix.at(r, c)) / 448.0F);
    }
  }
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      const float value = matrix.at(r, c) / scale_of(r, c);
      int exponent = 0;
      std::frexp(value, &exponent);
      const int step = std::max(exponent - 4, -9);
      const auto units = static_cast<int>(std::nearbyint(std::ldexp(std::abs(value), -step)));
      // units of 2^step: 8..16 with exponent field step + 10, or a subnormal below 8
      const int code = units < 8 ? units : units + 8 * (step + 9);
      out->codes.push_back(static_cast<std::byte>((value < 0.0F ? 0x80 : 0) | code));
    }
  }
  out->view.encoding = &out->encoding;
  out->view.rows = matrix.rows;
  out->view.cols = matrix.cols;
  out->view.codes = out->codes.data();
  out->view.row_stride_bytes = matrix.cols;
  out->view.companions[0] = {.role = decode::CompanionRole::kScale,
                             .type = decode::ElementType::kF32,
                             .rows = block_rows,
                             .cols = block_cols,
                             .bytes = std::as_bytes(std::span(out->scales))};
  out->view.companion_count = 1;
  return out;
}

TEST_P(Accuracy, EveryModeHoldsItsPromiseOnStoredEncodings) {
  double worst_default = 0.0;
  double worst_strict = 0.0;
  for (const NamedMatrix& one : suite()) {
    for (const auto& weights : {as_bf16(one.matrix), as_e4m3(one.matrix)}) {
      SCOPED_TRACE(one.name + " as " + weights->encoding.label);
      FloatMatrix decoded = one.matrix;
      backend_->decode(weights->view, decoded.values);
      const auto reference = reference_singular_values(decoded);
      // The encoding is near the original, else this test is of something else.
      ASSERT_NEAR(reference[0], reference_singular_values(one.matrix)[0], 0.1 * reference[0]);
      const auto input = make_memory_input(weights->view);
      MatrixInput* const batch[] = {input.get()};
      std::vector<MatrixReport> out(1);
      backend_->measure(batch, with_mode(SpectrumMode::kDefault, false), 0, out);
      ASSERT_EQ(out[0].status, MatrixStatus::kMeasured) << out[0].reason;
      worst_default = std::max(worst_default, default_ratio(out[0].sigma, reference));
      EXPECT_LE(default_ratio(out[0].sigma, reference), 1.0);
      EXPECT_LE(worst_var_error(out[0].sigma, reference, total_squares(decoded)),
                one.clustered ? 1e-5 : 1e-6);
      backend_->measure(batch, with_mode(SpectrumMode::kStrict), 0, out);
      worst_strict = std::max(worst_strict, strict_ratio(out[0].sigma, reference));
      EXPECT_LE(strict_ratio(out[0].sigma, reference), 50.0) << out[0].method;
    }
  }
  std::printf("stored encodings: default %.3f of the allowed, strict %.2f of 50\n", worst_default,
              worst_strict);
}

TEST_P(Accuracy, ExpertSizedNoiseIsMarchenkoPastur) {
  if (is_emulated()) {
    GTEST_SKIP() << "minutes in the emulation";
  }
  // var@64 of 2048 x 7168 noise: 0.06871 (Marchenko-Pastur), 0.06874 +- 0.00006 (Monte Carlo).
  const auto weights = as_bf16(gaussian_matrix(2048, 7168, 77));
  const auto input = make_memory_input(weights->view);
  MatrixInput* const batch[] = {input.get()};
  std::vector<MatrixReport> out(1);
  backend_->measure(batch, {}, 0, out);
  ASSERT_EQ(out[0].status, MatrixStatus::kMeasured) << out[0].reason;
  EXPECT_FALSE(out[0].escalated);
  EXPECT_NEAR(share(out[0].sigma, 64, out[0].moments.sum_squares), 0.06874, 2e-4);
  EXPECT_LT(out[0].check_trace, 3e-6);
  EXPECT_LT(out[0].check_gram, 3e-6);
}

TEST_P(Accuracy, StrictIsWithinFiftyTimesSizeTimesRounding) {
  double worst = 0.0;
  for (const NamedMatrix& one : suite()) {
    SCOPED_TRACE(one.name);
    const MatrixReport report = measure_floats(one.matrix, with_mode(SpectrumMode::kStrict));
    ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
    const double ratio = strict_ratio(report.sigma, reference_singular_values(one.matrix));
    EXPECT_LE(ratio, 50.0) << report.method;
    worst = std::max(worst, ratio);
  }
  std::printf("strict: %.2f of the 50 p eps64 s_1 allowed\n", worst);
}

TEST_P(Accuracy, StrictKeepsTinyValuesBeyondTheReachOfAGram) {
  for (const double condition : {1e8, 1e12}) {
    for (const bool wide : {false, true}) {
      const std::int64_t n = wide ? 100 : 260;
      const std::int64_t m = wide ? 260 : 100;
      FloatMatrix matrix = matrix_with_spectrum(n, m, dlatm1_values(3, condition, 100, 1), 3);
      const auto reference = reference_singular_values(matrix);
      const MatrixReport report = measure_floats(matrix, with_mode(SpectrumMode::kStrict));
      EXPECT_LE(strict_ratio(report.sigma, reference), 50.0) << report.method;
      EXPECT_TRUE(report.method.starts_with("qr+bidiag64")) << report.method;
    }
  }
}

TEST_P(Accuracy, StrictFindsAFewTinyValuesOfSquareAndTallMatrices) {
  const std::vector<std::vector<double>> tails = {
      {1e-6}, {3e-5, 1e-9, 0.0}, {1e-8, 1e-8, 1e-8, 1e-8}, {0.0, 0.0, 0.0, 0.0, 0.0}, {1e-17}};
  std::string methods;
  const std::int64_t cols = is_emulated() ? 120 : 200;
  for (const std::vector<double>& tail : tails) {
    for (const std::int64_t more_rows : {0, 30, 500}) {
      if (is_emulated() && more_rows == 500) {
        continue;  // the same code as 30
      }
      const std::int64_t rows = cols + more_rows;
      std::vector<double> values = dlatm1_values(4, 50.0, cols, 1);
      std::copy(tail.begin(), tail.end(), values.end() - static_cast<std::ptrdiff_t>(tail.size()));
      const FloatMatrix exact = matrix_with_spectrum(rows, cols, values, 9);
      // float32 rounding lifts a zero to 1e-7: doubling a column keeps the matrix singular.
      FloatMatrix matrix = exact;
      if (tail.front() == 0.0) {
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t c = 0; c < 5; ++c) {
            matrix.at(r, cols - 10 + c) = 2.0F * matrix.at(r, c);
          }
        }
      }
      const MatrixReport report = measure_floats(matrix, with_mode(SpectrumMode::kStrict));
      const auto reference = reference_singular_values(matrix);
      EXPECT_LE(strict_ratio(report.sigma, reference), 50.0) << rows << " rows, " << report.method;
      EXPECT_TRUE(std::is_sorted(report.sigma.rbegin(), report.sigma.rend()));
      EXPECT_GE(report.sigma.back(), 0.0);
      methods += report.method + " ";
    }
  }
  EXPECT_NE(methods.find(is_cuda() ? "qr+" : "+band64+band64"), std::string::npos) << methods;
}

TEST_P(Accuracy, DefaultOfSmallSidesIsFloat64AndKeepsWhatItLosesOnlyByRequest) {
  const FloatMatrix hard = matrix_with_spectrum(200, 80, dlatm1_values(3, 1e4, 80, 1), 5);
  const MatrixReport report = measure_floats(hard);
  EXPECT_FALSE(report.escalated) << report.method;
  EXPECT_TRUE(report.tail_reliable);
  EXPECT_EQ(report.method.find("32"), std::string::npos) << report.method;
  const auto reference = reference_singular_values(hard);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    EXPECT_NEAR(report.sigma[i], reference[i], report.sigma_error);
  }
  EXPECT_LT(report.sigma_error, 1e-9 * reference[0]);
  const MatrixReport kept = measure_floats(hard, with_mode(SpectrumMode::kDefault, false));
  EXPECT_TRUE(kept.method.starts_with("gram32+")) << kept.method;
  EXPECT_FALSE(kept.escalated);
  EXPECT_FALSE(kept.tail_reliable);
  EXPECT_GT(kept.sigma_error, 4e-6 * kept.sigma[0]);

  const MatrixReport easy =
      measure_floats(gaussian_matrix(80, 300, 6), with_mode(SpectrumMode::kDefault, false));
  EXPECT_TRUE(easy.tail_reliable);
  EXPECT_LT(easy.sigma_error, 4e-6 * easy.sigma[0]);
  EXPECT_TRUE(easy.method.starts_with("gram32+")) << easy.method;
}

TEST_P(Accuracy, SmallSquareMatricesAreMeasuredInFloat64AtOnce) {
  const FloatMatrix square = gaussian_matrix(72, 72, 11);
  const auto reference = reference_singular_values(square);
  MeasureOptions options;
  options.sign_flip_draws = 1;
  const MatrixReport report = measure_floats(square, options);
  ASSERT_EQ(report.status, MatrixStatus::kMeasured) << report.reason;
  EXPECT_FALSE(report.escalated);
  EXPECT_TRUE(report.tail_reliable);
  EXPECT_TRUE(report.method.starts_with("gram64+")) << report.method;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    EXPECT_NEAR(report.sigma[i], reference[i], report.sigma_error);
  }

  // The null keeps the first route, as it always did: only its largest values are used.
  options.escalate = false;
  const MatrixReport kept = measure_floats(square, options);
  EXPECT_TRUE(kept.method.starts_with("gram32+")) << kept.method;
  EXPECT_FALSE(kept.escalated);
  EXPECT_FALSE(kept.tail_reliable);
  ASSERT_TRUE(report.sign_flip && kept.sign_flip);
  EXPECT_EQ(report.sign_flip->first_sigma, kept.sign_flip->first_sigma);
}

TEST_P(Accuracy, SquareMatricesThatHoldNothingOrNoNumbersStayWhatTheyAre) {
  FloatMatrix zero{40, 40, std::vector<float>(1600, 0.0F)};
  const MatrixReport nothing = measure_floats(zero);
  EXPECT_EQ(nothing.status, MatrixStatus::kMeasured);
  EXPECT_EQ(nothing.reason, "zero matrix");
  EXPECT_EQ(nothing.sigma, std::vector<double>(40, 0.0));
  zero.values[77] = std::numeric_limits<float>::infinity();
  const MatrixReport infinite = measure_floats(zero);
  EXPECT_EQ(infinite.status, MatrixStatus::kNotFinite);
  EXPECT_EQ(infinite.moments.nonfinite, 1);
  // Rank 1: nothing but QR holds the zeros.
  FloatMatrix thin{40, 40, std::vector<float>(1600, 0.5F)};
  const MatrixReport one = measure_floats(thin);
  ASSERT_EQ(one.status, MatrixStatus::kMeasured) << one.reason;
  EXPECT_NEAR(one.sigma[0], 20.0, 1e-12);
  EXPECT_LE(one.sigma[1], 50.0 * 40.0 * kEps64 * 20.0);
  EXPECT_TRUE(one.escalated);
}

TEST_P(Accuracy, ChecksAreSmallOnSoundRunsAndInWeightUnits) {
  for (const double scale : {1.0, 1e-3, 1e12}) {
    const FloatMatrix matrix = gaussian_matrix(120, 400, 8, scale);
    for (const SpectrumMode mode : {SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      const MatrixReport report = measure_floats(matrix, with_mode(mode));
      EXPECT_LT(report.check_trace, 3e-6);
      EXPECT_LT(report.check_gram, 3e-6);
      double fourth = 0.0;
      for (const double s : reference_singular_values(matrix)) {
        fourth += s * s * s * s;
      }
      EXPECT_NEAR(report.gram_norm_squared / fourth, 1.0, 1e-5);
      EXPECT_NEAR(report.moments.sum_squares / total_squares(matrix), 1.0, 1e-12);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Accuracy, every_backend(),
                         [](const auto& instance) { return instance.param; });

}  // namespace
}  // namespace vindex::test::conformance_test
