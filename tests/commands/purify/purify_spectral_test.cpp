// The spectral methods: constants of the literature, the entries of the published table that
// matter, and the factors that a back end's vectors make.
#include "commands/purify/purify_methods.hpp"
#include "cpu/cpu_backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace vindex::purify::purify_spectral_test {
namespace {

Backend& backend() {
  static const auto kBackend = cpu::make_cpu_backend(1);
  return *kBackend;
}

struct Matrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values;
  decode::EncodedMatrix view() const { return decode::float32_view(values.data(), rows, cols); }
};

std::vector<float> normals(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<std::size_t>(count));
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// Rank r with entries of variance amplitude^2.
std::vector<float> low_rank(std::int64_t rows, std::int64_t cols, std::int64_t rank,
                            double amplitude) {
  const std::vector<float> left = normals(rows * rank, 11);
  const std::vector<float> right = normals(rank * cols, 12);
  std::vector<float> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      double sum = 0.0;
      for (std::int64_t k = 0; k < rank; ++k) {
        sum += static_cast<double>(left[static_cast<std::size_t>(i * rank + k)]) *
               right[static_cast<std::size_t>(k * cols + j)];
      }
      out.push_back(static_cast<float>(sum * amplitude / std::sqrt(static_cast<double>(rank))));
    }
  }
  return out;
}

std::vector<double> spectrum(const Matrix& matrix) {
  const auto input = make_memory_input(matrix.view());
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  backend().measure(batch, {}, 0, std::span(&report, 1));
  EXPECT_EQ(report.status, MatrixStatus::kMeasured);
  return report.sigma;
}

std::vector<float> purified(const Matrix& matrix, const PurifyRule& rule) {
  const std::vector<double> sigma = spectrum(matrix);
  const std::vector<double> kept =
      kept_values(rule, fit_noise(matrix.rows, matrix.cols, sigma), sigma);
  std::vector<float> out(matrix.values.size());
  if (!kept.empty()) {
    const LowRank factors = low_rank_of(backend(), matrix.view(), kept);
    EXPECT_EQ(factors.failure, "");
    EXPECT_LT(factors.residual, 1e-5);
    multiply_out(factors, out);
  }
  return out;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  }
  return sum;
}

/// rows x cols with the spectrum i^-exponent: what a trained matrix is more like than noise.
std::vector<double> power_law(std::int64_t count, double exponent) {
  std::vector<double> out;
  for (std::int64_t i = 1; i <= count; ++i) {
    out.push_back(std::pow(static_cast<double>(i), -exponent));
  }
  return out;
}

TEST(PurifySpectralTest, TheShrinkerUndoesWhatNoiseAddsToASpike) {
  for (const double aspect : {1.0, 0.375, 0.1}) {
    for (const double spike : {1.1, 2.0, 10.0}) {
      // A spike x above aspect^(1/4) is seen at z, with cosines c and d of its vectors; the best
      // value on the vectors that are seen is x c d (Benaych-Georges and Nadakuditi 2012).
      const double x2 = spike * spike;
      const double z = std::sqrt((x2 + 1.0) * (x2 + aspect) / x2);
      const double c = std::sqrt((x2 * x2 - aspect) / (x2 * x2 + aspect * x2));
      const double d = std::sqrt((x2 * x2 - aspect) / (x2 * x2 + x2));
      EXPECT_NEAR(optimal_shrinkage(z, aspect), spike * c * d, 1e-12) << aspect << " " << spike;
    }
    EXPECT_EQ(optimal_shrinkage(1.0 + std::sqrt(aspect), aspect), 0.0);
  }
}

TEST(PurifySpectralTest, NamesComeBack) {
  for (int i = 0; i < static_cast<int>(PurifyMethod::kCount); ++i) {
    const auto method = static_cast<PurifyMethod>(i);
    EXPECT_EQ(method_of(method_name(method)), method);
  }
  EXPECT_EQ(method_of("svd"), std::nullopt);
}

TEST(PurifySpectralTest, RankEightLeavesOneAndAHalfPerCentOfTheError) {
  Matrix matrix{.rows = 768, .cols = 2048, .values = low_rank(768, 2048, 8, 1.0)};
  const std::vector<float> signal = matrix.values;
  const std::vector<float> noise = normals(768 * 2048, 13);
  for (std::size_t i = 0; i < noise.size(); ++i) {
    matrix.values[i] += noise[i];
  }
  const double nothing = squared_error(matrix.values, signal);
  for (const PurifyMethod method : {PurifyMethod::kSvdShrink, PurifyMethod::kSvdGd}) {
    const double error = squared_error(purified(matrix, {.method = method}), signal) / nothing;
    EXPECT_NEAR(error, 0.014, 0.002) << method_name(method);
  }
  const NoiseFit fit = fit_noise(768, 2048, spectrum(matrix));
  EXPECT_EQ(fit.rank_gd, 8);
  EXPECT_NEAR(fit.sigma, 1.0, 0.01);
  EXPECT_NEAR(fit.ks, 0.010, 0.003);
}

TEST(PurifySpectralTest, NoiseHasNoRankAndKeepsNothing) {
  const Matrix matrix{.rows = 256, .cols = 700, .values = normals(256 * 700, 5)};
  const std::vector<double> sigma = spectrum(matrix);
  const NoiseFit fit = fit_noise(256, 700, sigma);
  EXPECT_EQ(fit.rank_gd, 0);
  EXPECT_LT(fit.ks, 0.02);
  EXPECT_TRUE(kept_values({.method = PurifyMethod::kSvdGd}, fit, sigma).empty());
  for (const bool force : {false, true}) {
    GateRules rules;
    rules.force = force;
    EXPECT_EQ(decide_gate(rules, 256, 700, fit, 1.0).verdict, GateVerdict::kShut);
  }
  EXPECT_EQ(decide_gate({}, 256, 700, fit, {}).verdict, GateVerdict::kShut);
}

TEST(PurifySpectralTest, APowerLawIsRefused) {
  // KS distances of the reference: .436, .347, .218, .291.
  const std::vector<std::pair<double, double>> kTable = {
      {0.1, 0.436}, {0.25, 0.347}, {0.5, 0.218}, {1.0, 0.291}};
  for (const auto& [exponent, ks] : kTable) {
    const NoiseFit fit = fit_noise(768, 2048, power_law(768, exponent));
    EXPECT_NEAR(fit.ks, ks, 0.01) << exponent;
    EXPECT_EQ(fit.rank_gd > 0, exponent > 0.2);  // the flattest has nothing above its bulk
    const GateDecision gate = decide_gate({}, 768, 2048, fit, 0.01);
    EXPECT_EQ(gate.verdict, GateVerdict::kShut);
    EXPECT_NE(gate.reason.find("its bulk is not noise"), std::string::npos) << gate.reason;
  }
}

TEST(PurifySpectralTest, PermutedRowsAndColumnsGiveThePermutedResult) {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kCols = 160;
  Matrix matrix{.rows = kRows, .cols = kCols, .values = low_rank(kRows, kCols, 3, 1.0)};
  const std::vector<float> noise = normals(kRows * kCols, 3);
  for (std::size_t i = 0; i < noise.size(); ++i) {
    matrix.values[i] += 0.3F * noise[i];
  }
  const auto transposed = [](const std::vector<float>& values) {
    std::vector<float> out;
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kCols; ++j) {
        out.push_back(values[static_cast<std::size_t>(i * 37 % kRows * kCols + j * 71 % kCols)]);
      }
    }
    return out;
  };
  const Matrix other{.rows = kRows, .cols = kCols, .values = transposed(matrix.values)};
  for (const PurifyMethod method :
       {PurifyMethod::kSvdShrink, PurifyMethod::kSvdGd, PurifyMethod::kLaser}) {
    const std::vector<float> first = transposed(purified(matrix, {.method = method}));
    const std::vector<float> second = purified(other, {.method = method});
    EXPECT_LT(change_of_weights(first, second).relative_change, 1e-4) << method_name(method);
  }
}

TEST(PurifySpectralTest, FiguresOfValuesAreThoseOfTheWeights) {
  Matrix matrix{.rows = 64, .cols = 200, .values = low_rank(64, 200, 4, 1.0)};
  const std::vector<float> noise = normals(64 * 200, 4);
  for (std::size_t i = 0; i < noise.size(); ++i) {
    matrix.values[i] += 0.1F * noise[i];
  }
  const std::vector<double> sigma = spectrum(matrix);
  const PurifyRule rule;
  const NoiseFit fit = fit_noise(64, 200, sigma);
  const ChangeStatistics by_values = change_of_values(sigma, kept_values(rule, fit, sigma));
  const ChangeStatistics by_weights = change_of_weights(matrix.values, purified(matrix, rule));
  EXPECT_NEAR(by_values.energy_removed, by_weights.energy_removed, 1e-5);
  EXPECT_NEAR(by_values.cosine, by_weights.cosine, 1e-6);
  EXPECT_NEAR(by_values.relative_change, by_weights.relative_change, 1e-5);
  EXPECT_EQ(decide_gate({}, 64, 200, fit, by_values.energy_removed).verdict, GateVerdict::kOpen);
}

TEST(PurifySpectralTest, FactorsOfEveryRankGiveTheMatrixBack) {
  const Matrix matrix{.rows = 80, .cols = 48, .values = normals(80 * 48, 6)};
  const std::vector<double> sigma = spectrum(matrix);
  const LowRank factors = low_rank_of(backend(), matrix.view(), sigma);
  ASSERT_EQ(factors.failure, "");
  EXPECT_EQ(factors.a.size(), 48U * 48U);
  EXPECT_EQ(factors.b.size(), 80U * 48U);
  std::vector<float> out(matrix.values.size());
  multiply_out(factors, out);
  EXPECT_LT(change_of_weights(matrix.values, out).relative_change, 1e-5);
}

TEST(PurifySpectralTest, ExactLowRankAndConstantsHaveNoNoise) {
  std::vector<double> sigma(100, 0.0);
  sigma[0] = 3.0;
  sigma[1] = 1e-9;
  EXPECT_EQ(fit_noise(100, 300, sigma).sigma, 0.0);
  EXPECT_EQ(fit_noise(100, 300, std::vector<double>(100, 0.0)).sigma, 0.0);
  EXPECT_EQ(fit_noise(1, 300, std::vector<double>(1, 2.0)).rank_gd, 0);
}

TEST(PurifySpectralTest, LaserKeepsTheFloorOfItsShare) {
  const std::vector<double> sigma = power_law(99, 1.0);
  const NoiseFit fit = fit_noise(99, 300, sigma);
  PurifyRule rule{.method = PurifyMethod::kLaser};
  for (const auto& [share, rank] : std::vector<std::pair<double, std::size_t>>{
           {0.0, 0}, {0.01, 0}, {0.1, 9}, {0.999, 98}, {1.0, 99}, {2.0, 99}}) {
    rule.rank_share = share;
    EXPECT_EQ(kept_values(rule, fit, sigma).size(), rank) << share;
  }
}

struct GateRow {
  double ks, sigma, removed;
  std::int64_t rank_gd, short_side;
  bool force;
  GateVerdict verdict;
  const char* reason;
};

TEST(PurifyGateTest, DecidesByTheTable) {
  const std::vector<GateRow> kTable = {
      {0.01, 1.0, 0.04, 8, 64, false, GateVerdict::kOpen, ""},
      {0.01, 1.0, 0.05, 8, 64, false, GateVerdict::kOpen, ""},
      {0.01, 1.0, 0.06, 8, 64, false, GateVerdict::kShut, "6.0 % of its energy would go"},
      {0.01, 1.0, 0.06, 8, 64, true, GateVerdict::kForced, "6.0 % of its energy would go"},
      {0.10, 1.0, 0.01, 8, 64, false, GateVerdict::kShut, "KS 0.100 is not below 0.10"},
      {0.30, 1.0, 0.01, 8, 64, true, GateVerdict::kForced, "KS 0.300"},
      {0.01, 1.0, 0.01, 0, 64, false, GateVerdict::kShut, "no singular value stands out"},
      {0.01, 1.0, 1.00, 0, 64, true, GateVerdict::kShut, "nothing would be left"},
      {0.01, 0.0, 0.01, 8, 64, false, GateVerdict::kShut, "no noise in it"},
      {0.01, 1.0, 0.01, 8, 31, false, GateVerdict::kShut, "31 singular values are too few"},
      {NAN, 1.0, 0.01, 8, 64, false, GateVerdict::kShut, "its bulk is not noise"},
  };
  for (const GateRow& row : kTable) {
    NoiseFit fit;
    fit.ks = row.ks;
    fit.sigma = row.sigma;
    fit.rank_gd = row.rank_gd;
    GateRules rules;
    rules.force = row.force;
    const GateDecision decision = decide_gate(rules, row.short_side, 500, fit, row.removed);
    EXPECT_EQ(decision.verdict, row.verdict) << row.reason;
    EXPECT_NE(decision.reason.find(row.reason), std::string::npos) << decision.reason;
    EXPECT_EQ(decision.reason.empty(), row.verdict == GateVerdict::kOpen);
  }
}

}  // namespace
}  // namespace vindex::purify::purify_spectral_test
