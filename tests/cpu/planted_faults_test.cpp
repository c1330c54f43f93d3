// A fault in any stage of any route refutes the error that the route states: another route takes
// over, or the report says so (statistics/judgement/spectrum_checks.hpp). Whatever its cause would
// be.
#include "planted_faults.hpp"

#include "cpu/cpu_backend.hpp"
#include "cpu/tridiagonal/simd_tridiagonal.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::cpu::planted_faults_test {
namespace {

using planted_faults::Fault;
using planted_faults::Planted;
using planted_faults::Stage;

constexpr Fault kFaults[] = {Fault::kWrongReflector, Fault::kDroppedRotation, Fault::kLostValue};

MatrixReport measured(const test::FloatMatrix& matrix, const MeasureOptions& options) {
  const auto backend = make_cpu_backend(1);
  const auto input =
      make_memory_input(decode::float32_view(matrix.values.data(), matrix.rows, matrix.cols));
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  backend->measure(batch, options, 0, {&report, 1});
  return report;
}

double worst_error(const MatrixReport& report, const std::vector<double>& reference) {
  double worst = 0.0;
  for (std::size_t i = 0; i < report.sigma.size(); ++i) {
    worst = std::max(worst, std::abs(report.sigma[i] - reference[i]));
  }
  return worst;
}

/// How a fault comes out: by another route, or in words.
enum class Outcome { kTakenOver, kReported };

struct Route {
  const char* name;
  MeasureOptions options;
  std::int64_t p;
  std::vector<Stage> stages;
  Outcome outcome;
};

MeasureOptions options_of(SpectrumMode mode, bool escalate = true, const char* route = "auto") {
  MeasureOptions options;
  options.mode = mode;
  options.escalate = escalate;
  options.svd_route = route;
  return options;
}

std::vector<Route> routes() {
  const std::vector<Stage> wide = {Stage::kBand64, Stage::kChase, Stage::kValues};
  const std::vector<Stage> small = {Stage::kOneStage, Stage::kValues};
  const std::vector<Stage> qr = {Stage::kFactor, Stage::kBidiagonal};
  return {
      {"default", options_of(SpectrumMode::kDefault), 160, wide, Outcome::kTakenOver},
      {"default of a small matrix", options_of(SpectrumMode::kDefault), 40, small,
       Outcome::kTakenOver},
      {"default in float32",
       options_of(SpectrumMode::kDefault),
       544,
       {Stage::kBand32},
       Outcome::kTakenOver},
      {"strict", options_of(SpectrumMode::kStrict), 160, wide, Outcome::kTakenOver},
      {"strict of a small matrix", options_of(SpectrumMode::kStrict), 40, small,
       Outcome::kTakenOver},
      {"fast", options_of(SpectrumMode::kFast), 160, wide, Outcome::kTakenOver},
      {"fast of a small matrix", options_of(SpectrumMode::kFast), 40, small, Outcome::kTakenOver},
      {"fast that ends early",
       options_of(SpectrumMode::kFast),
       544,
       {Stage::kPartialBand, Stage::kChase},
       Outcome::kTakenOver},
      {"--no-escalate", options_of(SpectrumMode::kDefault, false), 160, wide, Outcome::kReported},
      {"--no-escalate in float32",
       options_of(SpectrumMode::kDefault, false),
       544,
       {Stage::kBand32, Stage::kChase, Stage::kValues},
       Outcome::kReported},
      {"--no-escalate of a small matrix", options_of(SpectrumMode::kDefault, false), 40, small,
       Outcome::kReported},
      {"fast --no-escalate", options_of(SpectrumMode::kFast, false), 160, wide, Outcome::kReported},
      {"fast --no-escalate that ends early",
       options_of(SpectrumMode::kFast, false),
       544,
       {Stage::kPartialBand, Stage::kChase},
       Outcome::kReported},
      {"qr", options_of(SpectrumMode::kStrict, true, "qr"), 160, qr, Outcome::kReported},
      {"qr in default", options_of(SpectrumMode::kDefault, true, "qr"), 40, qr, Outcome::kReported},
  };
}

/// Values that fall slowly, of which the largest are soon found.
test::FloatMatrix matrix_of(std::int64_t p) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < p; ++i) {
    values.push_back(1.0 / std::sqrt(1.0 + static_cast<double>(i)));
  }
  return test::matrix_with_spectrum(p + 40, p, values, 7);
}

TEST(PlantedFaults, AreTakenOverOrReportedInEveryRoute) {
  if (!tridiagonalise_is_fast(best_simd_level())) {
    GTEST_SKIP() << "this processor takes one stage in place of a band";
  }
  std::int64_t order = 0;
  test::FloatMatrix matrix;
  std::vector<double> reference;
  for (const Route& route : routes()) {
    if (route.p != order) {
      order = route.p;
      matrix = matrix_of(order);
      reference = test::reference_singular_values(matrix);
    }
    const MatrixReport sound = measured(matrix, route.options);
    ASSERT_EQ(sound.reason.find("refutes"), std::string::npos) << route.name;
    EXPECT_LE(worst_error(sound, reference), sound.sigma_error) << route.name;
    for (const Stage stage : route.stages) {
      for (const Fault fault : kFaults) {
        if (!can_be_planted(stage, fault)) {
          continue;
        }
        SCOPED_TRACE(std::string(route.name) + ": " + name_of(fault) + " in " + name_of(stage));
        const Planted planted(stage, fault);
        const MatrixReport report = measured(matrix, route.options);
        ASSERT_GT(Planted::count(), 0) << report.method;
        ASSERT_EQ(report.status, MatrixStatus::kMeasured);
        // Whatever is reported, the error holds.
        EXPECT_LE(worst_error(report, reference), report.sigma_error) << report.method;
        const bool is_said = report.reason.find("refutes the error") != std::string::npos;
        if (route.outcome == Outcome::kTakenOver) {
          EXPECT_FALSE(is_said) << report.reason;
          EXPECT_NE(report.method, sound.method);
          EXPECT_EQ(report.escalated, route.options.mode != SpectrumMode::kStrict);
          EXPECT_LT(report.sigma_error, 1e-5 * reference[0]);
        } else {
          EXPECT_TRUE(is_said) << report.method << ", check_trace " << report.check_trace
                               << ", check_gram " << report.check_gram;
          EXPECT_FALSE(report.tail_reliable);
          EXPECT_GE(report.sigma_error, reference[0]) << "nothing is stated but the norm";
          EXPECT_TRUE(!report.bounds || std::isnan(report.bounds->var_at_k_lower[0]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace vindex::cpu::planted_faults_test
