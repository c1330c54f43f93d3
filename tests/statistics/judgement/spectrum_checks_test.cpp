// Sums over a spectrum refute errors that are too small, and none that hold.
#include "statistics/judgement/spectrum_checks.hpp"

#include "judged_findings.hpp"

#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <vector>

namespace vindex::statistics::spectrum_checks_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double sum_of_powers(const std::vector<double>& sigma, int power) {
  double sum = 0.0;
  for (auto s = sigma.rbegin(); s != sigma.rend(); ++s) {
    sum += std::pow(*s, power);
  }
  return sum;
}

CheckSources sources_of(const std::vector<double>& sigma) {
  const auto p = static_cast<std::int64_t>(sigma.size());
  return {.sum_squares = sum_of_powers(sigma, 2),
          .gram_norm_squared = sum_of_powers(sigma, 4),
          .p = p,
          .n = 3 * p};
}

std::vector<double> falling(std::size_t count) {
  std::vector<double> sigma(count);
  for (std::size_t i = 0; i < count; ++i) {
    sigma[i] = 7.0 / std::pow(1.0 + static_cast<double>(i), 0.7);
  }
  return sigma;
}

TEST(SpectrumChecks, ErrorsThatHoldAreNeverRefuted) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  for (const std::size_t count : {1UL, 2UL, 7UL, 200UL}) {
    const std::vector<double> sigma = falling(count);
    for (const double size : {0.0, 1e-15, 1e-9, 1e-3, 0.5}) {
      // All true values on one side, which is the worst, or on any.
      for (const double side : {-1.0, 1.0, 0.0}) {
        std::vector<double> truth = sigma;
        std::vector<double> errors;
        for (double& s : truth) {
          errors.push_back(size * s);
          s += size * s * (side != 0.0 ? side : uniform(random));
        }
        EXPECT_FALSE(check_spectrum(sigma, errors, sources_of(truth)).refute())
            << count << " values, " << size << " to " << side;
      }
    }
  }
}

TEST(SpectrumChecks, OneValueBeyondAllErrorsTogetherIsSeen) {
  const std::vector<double> truth = falling(128);
  const std::vector<double> errors(128, 8e-14 * truth[0]);
  const CheckSources sources = sources_of(truth);
  EXPECT_FALSE(check_spectrum(truth, errors, sources).refute());
  std::vector<double> wrong = truth;
  wrong[30] += 3.9e-6 * truth[0];
  SpectrumChecks checks = check_spectrum(wrong, errors, sources);
  EXPECT_TRUE(checks.trace_refutes());
  EXPECT_TRUE(checks.gram_refutes());
  EXPECT_LT(checks.trace, 3e-6) << "far below what was once an alarm";
  // Two that make up for each other in the trace do not in the fourth powers.
  wrong = truth;
  const double moved = 1e-6 * truth[0] * truth[0];
  wrong[1] = std::sqrt(truth[1] * truth[1] + moved);
  wrong[90] = std::sqrt(truth[90] * truth[90] - moved);
  checks = check_spectrum(wrong, errors, sources);
  EXPECT_FALSE(checks.trace_refutes());
  EXPECT_TRUE(checks.gram_refutes());
}

TEST(SpectrumChecks, WhatIsNotKnownIsNotRefuted) {
  const std::vector<double> sigma = {5.0, 1.0};
  CheckSources sources = sources_of({6.0, 1.0});
  EXPECT_FALSE(check_spectrum(sigma, std::vector<double>(2, kNaN), sources).refute());
  sources.gram_norm_squared = kNaN;
  const SpectrumChecks checks = check_spectrum(sigma, std::vector<double>(2, 0.1), sources);
  EXPECT_TRUE(checks.trace_refutes()) << "one check stands without the other";
  EXPECT_TRUE(std::isnan(checks.gram));
  EXPECT_FALSE(checks.gram_refutes());
}

TEST(SpectrumChecks, TheLargestValuesLeaveRoomForTheOthers) {
  const std::vector<double> truth = falling(100);
  const CheckSources sources = sources_of(truth);
  const std::vector<double> top(truth.begin(), truth.begin() + 64);
  const std::vector<double> errors(64, 1e-7);
  EXPECT_FALSE(check_largest(top, errors, sources).refute());
  std::vector<double> all_is_lost(64, top.back());
  EXPECT_TRUE(check_largest(all_is_lost, errors, sources).refute()) << "too little";
  std::vector<double> too_much = top;
  too_much[0] *= 1.5;
  EXPECT_TRUE(check_largest(too_much, errors, sources).refute());
  // What a reduction turned a matrix into has its sums.
  const ErrorParts error = {.each = 1e-6};
  EXPECT_FALSE(check_similar(sources.sum_squares + 50.0 * error.each, sources.gram_norm_squared,
                             error, sources)
                   .refute());
  EXPECT_TRUE(check_similar(sources.sum_squares + 101.0 * error.each, sources.gram_norm_squared,
                            error, sources)
                  .trace_refutes());
  EXPECT_TRUE(check_similar(sources.sum_squares, 1.01 * sources.gram_norm_squared, error, sources)
                  .gram_refutes());
  EXPECT_FALSE(check_similar(kNaN, kNaN, error, sources).refute()) << "no sums";
  const ErrorParts own = {.own = 1e-6};
  const double allowed = 1e-6 * sources.sum_squares;
  EXPECT_FALSE(
      check_similar(sources.sum_squares + 0.9 * allowed, sources.gram_norm_squared, own, sources)
          .refute());
  EXPECT_TRUE(
      check_similar(sources.sum_squares + 1.1 * allowed, sources.gram_norm_squared, own, sources)
          .trace_refutes());
}

/// A finding whose trace misses by `relative`, far more than its errors and far less than 3e-6.
StepResult refuted_finding(std::size_t count, double relative = 1e-8) {
  StepResult found = found_with(std::vector<double>(count, 1.0), 1e-17);
  found.moments.sum_squares *= 1.0 + relative;
  return found;
}

TEST(SpectrumChecks, EveryModeJudgesThem) {
  struct Row {
    Step step;
    SpectrumMode mode;
    std::optional<Step> next;
  };
  for (const Row& row : {Row{Step::kGram32, SpectrumMode::kFast, Step::kGram64},
                         {Step::kGram64, SpectrumMode::kFast, Step::kQr},
                         {Step::kGram32, SpectrumMode::kDefault, Step::kGram64},
                         {Step::kGram64, SpectrumMode::kDefault, Step::kQr},
                         {Step::kGram64, SpectrumMode::kStrict, Step::kQr},
                         {Step::kQr, SpectrumMode::kFast, std::nullopt},
                         {Step::kQr, SpectrumMode::kDefault, std::nullopt},
                         {Step::kQr, SpectrumMode::kStrict, std::nullopt}}) {
    for (const bool escalate : {true, false}) {
      const StepResult found = refuted_finding(80);
      MatrixReport report;
      const NextStep verdict = judge(found, at(row.step, row.mode, escalate, 80), report);
      const bool goes_on = (escalate || row.mode == SpectrumMode::kStrict) && row.next;
      EXPECT_EQ(verdict.next, goes_on ? row.next : std::nullopt);
      EXPECT_EQ(verdict.lost, 0) << "no value is good";
      if (goes_on) {
        continue;
      }
      // Nothing takes over: it is said, and no error is stated that does not hold.
      EXPECT_EQ(report.status, MatrixStatus::kMeasured);
      EXPECT_EQ(report.reason, "check_trace refutes the error of the values");
      EXPECT_NEAR(report.sigma_error, std::sqrt(found.moments.sum_squares), 1e-12);
      EXPECT_FALSE(report.tail_reliable);
      EXPECT_EQ(report.bounds.has_value(), row.mode == SpectrumMode::kFast);
      EXPECT_TRUE(!report.bounds || std::isnan(report.bounds->stable_rank_lower));
      EXPECT_EQ(report.sigma.size(), row.mode == SpectrumMode::kFast ? 64U : 80U);
    }
  }
}

TEST(SpectrumChecks, ATailDoesNotSaveASpectrumThatIsRefuted) {
  const StepContext situation = with_tail(at(Step::kTail, SpectrumMode::kDefault, true, 80), 9);
  MatrixReport report;
  EXPECT_EQ(judge(refuted_finding(80), situation, report).next, Step::kGram64);
}

TEST(SpectrumChecks, AnEarlyEndIsJudgedByAllThatItTurned) {
  for (const bool is_sound : {true, false}) {
    StepResult found = found_with(std::vector<double>(64, 2.0), 1e-12);
    found.moments.sum_squares += 300.0;  // of the others
    found.gram_norm_squared += 300.0;
    found.top_errors.assign(64, 1e-6);
    const std::vector<double> squares(64, 4.0);
    found.bounds =
        bounds_between(squares, squares, SquareErrors{.each = std::vector<double>(64, 1e-6)},
                       found.moments.sum_squares);
    found.reduced_trace = found.moments.sum_squares * (is_sound ? 1.0 : 1.0 + 1e-5);
    found.reduced_norm_squared = found.gram_norm_squared;
    for (const bool escalate : {true, false}) {
      MatrixReport report;
      EXPECT_EQ(judge(found, at(Step::kGram32, SpectrumMode::kFast, escalate, 600), report).next,
                is_sound || !escalate ? std::nullopt : std::optional(Step::kGram64));
      EXPECT_TRUE(std::isnan(report.check_trace)) << "the sum over 64 values is not F2";
      EXPECT_EQ(report.reason,
                is_sound || escalate ? "" : "check_trace refutes the error of the values");
    }
  }
}

TEST(SpectrumChecks, ADrawIsNotKeptThatIsRefuted) {
  const StepResult found = refuted_finding(80);
  EXPECT_EQ(judge_draw(found, at(Step::kGram32, SpectrumMode::kDefault, true, 80)).next,
            Step::kGram64);
  EXPECT_EQ(judge_draw(found, at(Step::kGram64, SpectrumMode::kStrict, true, 80)).next, Step::kQr);
  EXPECT_EQ(judge_draw(found, at(Step::kGram32, SpectrumMode::kDefault, false, 80)).next,
            std::nullopt);
  EXPECT_EQ(judge_draw(found, at(Step::kQr, SpectrumMode::kStrict, true, 80)).next, std::nullopt);
}

}  // namespace
}  // namespace vindex::statistics::spectrum_checks_test
