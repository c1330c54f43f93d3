// The judgement that back ends share, branch by branch and by hand: what a finding becomes in a
// report, what comes next, what `fast` keeps.
#include "statistics/judgement/judgement.hpp"

#include "judged_findings.hpp"

#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include "statistics/judgement/step_result.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace vindex::statistics::judgement_test {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Step kFullSteps[] = {Step::kGram32, Step::kGram64, Step::kQr};
constexpr Step kAllSteps[] = {Step::kTop, Step::kGram32, Step::kGram64, Step::kTail, Step::kQr};

/// `share` of F2 in the first value, known to within `width`.
SpectrumBounds bounds_of_width(double share, double width) {
  SpectrumBounds bounds = unproved_bounds();
  for (std::size_t i = 0; i < bounded_count(); ++i) {
    bounds.var_at_k_lower[i] = share;
    bounds.var_at_k_upper[i] = share + width;
  }
  bounds.stable_rank_lower = bounds.stable_rank_upper = 1.0 / share;
  return bounds;
}

TEST(Judgement, ASoundSpectrumIsKeptWithItsChecks) {
  const StepResult found = found_with({15.0, 1.0});
  for (const Step step : kFullSteps) {
    for (const bool escalate : {true, false}) {
      MatrixReport report;
      EXPECT_EQ(judge(found, at(step, SpectrumMode::kDefault, escalate), report).next,
                std::nullopt);
      EXPECT_EQ(report.status, MatrixStatus::kMeasured);
      EXPECT_EQ(report.reason, "");
      EXPECT_EQ(report.method, "some method");
      EXPECT_EQ(report.sigma, found.sigma);
      EXPECT_EQ(report.check_trace, 0.0);
      EXPECT_EQ(report.check_gram, 0.0);
      EXPECT_TRUE(report.tail_reliable);
      EXPECT_FALSE(report.escalated);
      EXPECT_FALSE(report.bounds.has_value());
    }
  }
}

TEST(Judgement, WhatIsNotFiniteIsToldAtOnceAndNeverEscalated) {
  StepResult found = found_with({5.0, 1.0});
  found.moments.nonfinite = 3;
  for (const Step step : kAllSteps) {
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      MatrixReport report;
      EXPECT_EQ(judge(found, at(step, mode), report).next, std::nullopt);
      EXPECT_EQ(report.status, MatrixStatus::kNotFinite);
      EXPECT_EQ(report.reason, "3 weights are not finite");
      EXPECT_TRUE(report.sigma.empty());
      EXPECT_TRUE(std::isnan(report.gram_norm_squared));
      EXPECT_TRUE(std::isnan(report.check_trace));
      EXPECT_EQ(report.moments.nonfinite, 3);
      EXPECT_FALSE(report.escalated);
    }
  }
}

TEST(Judgement, AZeroMatrixIsMeasuredWithAsManyZerosAsItsModeKeeps) {
  StepResult found;
  found.method = "some method";
  for (const Step step : kAllSteps) {
    for (const SpectrumMode mode :
         {SpectrumMode::kFast, SpectrumMode::kDefault, SpectrumMode::kStrict}) {
      MatrixReport report;
      EXPECT_EQ(judge(found, at(step, mode, true, 100), report).next, std::nullopt);
      EXPECT_EQ(report.status, MatrixStatus::kMeasured);
      EXPECT_EQ(report.reason, "zero matrix");
      EXPECT_EQ(report.sigma, std::vector<double>(mode == SpectrumMode::kFast ? 64 : 100, 0.0));
      EXPECT_TRUE(std::isnan(report.check_trace));
      EXPECT_FALSE(report.bounds.has_value());
      EXPECT_FALSE(report.escalated);
    }
  }
}

TEST(Judgement, WhatDidNotConvergeGoesOneStepOnWhileThereIsOne) {
  struct Row {
    Step step;
    SpectrumMode mode;
    std::optional<Step> next;
  };
  StepResult lost = found_with({5.0, 1.0});
  lost.sigma.clear();
  for (const Row& row : {Row{Step::kTop, SpectrumMode::kFast, Step::kGram64},
                         {Step::kGram64, SpectrumMode::kFast, Step::kQr},
                         {Step::kGram32, SpectrumMode::kDefault, Step::kGram64},
                         {Step::kGram64, SpectrumMode::kDefault, Step::kQr},
                         {Step::kGram64, SpectrumMode::kStrict, Step::kQr},
                         {Step::kQr, SpectrumMode::kFast, std::nullopt},
                         {Step::kQr, SpectrumMode::kDefault, std::nullopt},
                         {Step::kQr, SpectrumMode::kStrict, std::nullopt}}) {
    for (const bool escalate : {true, false}) {
      MatrixReport report;
      const NextStep verdict = judge(lost, at(row.step, row.mode, escalate), report);
      const bool goes_on = escalate || row.mode == SpectrumMode::kStrict;
      EXPECT_EQ(verdict.next, goes_on ? row.next : std::nullopt);
      EXPECT_EQ(verdict.lost, 0) << "no value is good";
      EXPECT_EQ(report.status, MatrixStatus::kNotConverged);
      EXPECT_EQ(report.reason, "the eigenvalue iteration did not converge");
      EXPECT_EQ(report.escalated, verdict.next.has_value() && row.mode != SpectrumMode::kStrict);
      EXPECT_FALSE(report.bounds.has_value());
    }
  }
}

TEST(Judgement, DefaultDoubtsAGramByItsChecks) {
  const auto next_of = [](const StepResult& found, bool escalate, MatrixReport& report) {
    report = {};
    return judge(found, at(Step::kGram32, SpectrumMode::kDefault, escalate), report).next;
  };
  StepResult trace = found_with({5.0, 1.0});
  trace.moments.sum_squares *= 1.00001;
  StepResult norm = found_with({5.0, 1.0});
  norm.gram_norm_squared *= 1.00001;
  for (const StepResult& doubtful : {trace, norm}) {
    MatrixReport report;
    EXPECT_EQ(next_of(doubtful, true, report), Step::kGram64);
    EXPECT_TRUE(report.escalated);
    EXPECT_EQ(next_of(doubtful, false, report), std::nullopt);
    EXPECT_FALSE(report.escalated);
    EXPECT_FALSE(report.tail_reliable);
    EXPECT_EQ(report.status, MatrixStatus::kMeasured);
    EXPECT_EQ(report.sigma, doubtful.sigma);
  }
  MatrixReport report;
  StepResult without_gram = found_with({5.0, 1.0});
  without_gram.gram_norm_squared = kNaN;
  EXPECT_EQ(next_of(without_gram, true, report), std::nullopt) << "a check that is not made";
  EXPECT_TRUE(std::isnan(report.check_gram));
}

TEST(Judgement, FastOfAFloat32SpectrumIsBoundedByItsRounding) {
  std::vector<double> sigma;
  for (int i = 0; i < 600; ++i) {
    sigma.push_back(1.0 / std::sqrt(1.0 + 0.01 * i));
  }
  for (const double entry : {1e-9, 1e-6}) {
    const StepResult found = found_with(sigma, entry);
    MatrixReport report;
    const bool is_good = entry < 1e-8;
    EXPECT_EQ(judge(found, at(Step::kGram32, SpectrumMode::kFast, true, 600), report).next,
              is_good ? std::nullopt : std::optional(Step::kGram64));
    report = {};
    EXPECT_EQ(judge(found, at(Step::kGram32, SpectrumMode::kFast, false, 600), report).next,
              std::nullopt);
    EXPECT_EQ(report.reason, is_good ? "" : "bounds not proved to 1e-5");
    EXPECT_EQ(report.sigma.size(), 64U);
    ASSERT_TRUE(report.bounds.has_value());
    const double width = report.bounds->stable_rank_upper - report.bounds->stable_rank_lower;
    const double error = eigenvalue_errors(sigma, found.rounding)[0];
    EXPECT_NEAR(width / found.moments.sum_squares, 2.0 * error, 0.1 * error);
  }
}

TEST(Judgement, FastOfTheLargestValuesAloneIsKeptByTheirOwnBounds) {
  StepResult found = found_with(std::vector<double>(64, 2.0));
  found.moments.sum_squares *= 4.0;  // others hold the rest
  found.top_errors.assign(64, 4e-3);
  for (const double width : {5e-6, 2e-5}) {
    for (const bool escalate : {true, false}) {
      found.bounds = bounds_of_width(0.25, width);
      const bool is_good = width < 1e-5;
      MatrixReport report;
      EXPECT_EQ(judge(found, at(Step::kGram32, SpectrumMode::kFast, escalate, 600), report).next,
                is_good || !escalate ? std::nullopt : std::optional(Step::kGram64));
      EXPECT_EQ(report.escalated, !is_good && escalate);
      EXPECT_NEAR(report.sigma_error, 1e-3, 1e-6) << "of s, from that of s^2";
      EXPECT_TRUE(std::isnan(report.check_trace)) << "the sum over 64 values is not F2";
      if (is_good || !escalate) {
        EXPECT_EQ(report.reason, is_good ? "" : "bounds not proved to 1e-5");
        ASSERT_TRUE(report.bounds.has_value());
        EXPECT_EQ(report.bounds->var_at_k_lower[6], 0.25);
        EXPECT_EQ(report.sigma.size(), 64U);
        EXPECT_FALSE(report.tail_reliable);
      }
    }
  }
}

TEST(Judgement, AFloat64GramHoldsConditionsUpToTenTimesTheSize) {
  const auto verdict_of = [](const StepResult& found, const StepContext& situation) {
    MatrixReport report;
    return judge(found, situation, report);
  };
  const StepContext strict = at(Step::kGram64, SpectrumMode::kStrict);
  EXPECT_EQ(verdict_of(found_with({20.0, 1.3}), strict).next, std::nullopt);
  EXPECT_EQ(verdict_of(found_with({20.0, 0.99}), strict).next, Step::kQr);
  EXPECT_EQ(verdict_of(found_with({20.0, 0.99}), strict).lost, 1);
  StepResult negative = found_with({20.0, 5.0});
  negative.negative = true;
  EXPECT_EQ(verdict_of(negative, strict).next, Step::kQr);
  StepResult dead = found_with({20.0, 19.0, 0.0});
  EXPECT_EQ(verdict_of(dead, strict).next, Step::kQr);
  dead.zero_rows = 1;
  EXPECT_EQ(verdict_of(dead, strict).next, std::nullopt) << "an exact zero is no condition";
  // Four values: the Gram holds down to s_1/40, and what lies below twice that is found again.
  EXPECT_EQ(verdict_of(found_with({40.0, 2.5, 1.5, 0.5}), strict).lost, 2);
  // With an alarm none of the values can be trusted.
  StepResult alarmed = found_with({40.0, 2.5, 1.5, 0.5});
  alarmed.moments.sum_squares *= 1.001;
  EXPECT_EQ(verdict_of(alarmed, strict).next, Step::kQr);
  EXPECT_EQ(verdict_of(alarmed, strict).lost, 0);
  // `fast` has no tail to lose.
  EXPECT_EQ(verdict_of(found_with({20.0, 1e-9}), at(Step::kGram64, SpectrumMode::kFast)).next,
            std::nullopt);
}

// Many values at s_1/(7 p) are within the condition; mixed by rounding, their stated errors are not
// within the promise.
TEST(Judgement, StrictTakesNoGramWhoseStatedErrorExceedsThePromise) {
  constexpr std::int64_t kP = 600;
  constexpr double kEps64 = 0x1p-52;
  std::vector<double> sigma(kP, 1.0);
  std::fill(sigma.begin() + 300, sigma.end(), 1.0 / (7.0 * kP));
  const StepContext strict = at(Step::kGram64, SpectrumMode::kStrict, true, kP);
  for (const double entry : {0.01 * kEps64, 0.2 * kEps64}) {
    const StepResult found = found_with(sigma, entry);
    const std::vector<double> errors = sigma_errors(found, strict);
    const double worst = *std::max_element(errors.begin(), errors.end());
    const bool is_held = worst <= 50.0 * kP * kEps64;
    EXPECT_EQ(is_held, entry < 0.1 * kEps64) << worst;
    MatrixReport report;
    const NextStep verdict = judge(found, strict, report);
    EXPECT_EQ(verdict.next, is_held ? std::nullopt : std::optional(Step::kQr));
    EXPECT_EQ(verdict.lost, is_held ? 0 : 300);
    EXPECT_EQ(judge_draw(found, strict).next, verdict.next);
  }
}

TEST(Judgement, OnlyALeftRouteCountsAsEscalated) {
  const StepResult beyond = found_with({20.0, 1e-9}, 1e-17);
  MatrixReport report;
  EXPECT_EQ(judge(beyond, at(Step::kGram64, SpectrumMode::kStrict, false), report).next, Step::kQr)
      << "QR is a part of strict, also with --no-escalate";
  EXPECT_FALSE(report.escalated);
  // A back end whose `default` begins in float64.
  EXPECT_EQ(judge(beyond, at(Step::kGram64, SpectrumMode::kDefault), report).next, Step::kQr);
  EXPECT_TRUE(report.escalated);
  report = {};
  EXPECT_EQ(judge(beyond, at(Step::kGram64, SpectrumMode::kDefault, false), report).next,
            std::nullopt);
  EXPECT_FALSE(report.escalated);
  EXPECT_FALSE(report.tail_reliable);
  // What was escalated stays so to the end, and QR is the end.
  report = {};
  (void)judge(beyond, at(Step::kGram32, SpectrumMode::kDefault), report);
  (void)judge(beyond, at(Step::kGram64, SpectrumMode::kDefault), report);
  EXPECT_EQ(judge(beyond, at(Step::kQr, SpectrumMode::kDefault), report).next, std::nullopt);
  EXPECT_TRUE(report.escalated);
  EXPECT_TRUE(report.tail_reliable);
  EXPECT_EQ(report.sigma, beyond.sigma);
}

TEST(Judgement, FastByIterationKeepsItsBoundsOrTakesTheWholeSpectrum) {
  const std::vector<double> top(64, 1.0);
  StepResult found = found_with(top);
  found.moments.sum_squares = 200.0;
  found.bounds = bounds_of_width(0.005, 0.9e-5);
  for (const bool escalate : {true, false}) {
    MatrixReport report;
    EXPECT_EQ(judge(found, at(Step::kTop, SpectrumMode::kFast, escalate, 600), report).next,
              std::nullopt);
    ASSERT_TRUE(report.bounds.has_value());
    EXPECT_EQ(report.bounds->var_at_k_lower[0], 0.005);
    EXPECT_EQ(report.reason, "");
    EXPECT_FALSE(report.tail_reliable);
    EXPECT_TRUE(std::isnan(report.check_trace)) << "64 values have no trace";
  }
  for (const SpectrumBounds& wide : {bounds_of_width(0.005, 1.1e-5), unproved_bounds()}) {
    found.bounds = wide;
    MatrixReport report;
    EXPECT_EQ(judge(found, at(Step::kTop, SpectrumMode::kFast, true, 600), report).next,
              Step::kGram64);
    EXPECT_TRUE(report.escalated);
    EXPECT_FALSE(report.bounds.has_value());
    report = {};
    EXPECT_EQ(judge(found, at(Step::kTop, SpectrumMode::kFast, false, 600), report).next,
              std::nullopt);
    EXPECT_EQ(report.status, MatrixStatus::kMeasured);
    EXPECT_EQ(report.reason, "bounds not proved to 1e-5");
    EXPECT_EQ(report.sigma, top);
    EXPECT_FALSE(report.tail_reliable);
    ASSERT_TRUE(report.bounds.has_value());
  }
}

TEST(Judgement, FastOfAWholeSpectrumKeepsSixtyFourValuesBetweenBounds) {
  for (const Step step : {Step::kGram64, Step::kQr}) {
    for (const std::size_t p : {3UL, 64UL, 100UL}) {
      std::vector<double> sigma(p);
      for (std::size_t i = 0; i < p; ++i) {
        sigma[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i));
      }
      const StepResult found = found_with(sigma);
      MatrixReport report;
      const auto size = static_cast<std::int64_t>(p);
      EXPECT_EQ(judge(found, at(step, SpectrumMode::kFast, true, size), report).next, std::nullopt);
      EXPECT_EQ(report.sigma.size(), std::min<std::size_t>(p, 64));
      EXPECT_FALSE(report.tail_reliable);
      EXPECT_LT(report.check_trace, 1e-14) << "of all values";
      ASSERT_TRUE(report.bounds.has_value());
      const double total = found.moments.sum_squares;
      EXPECT_LE(report.bounds->var_at_k_lower[0], 1.0 / total);
      EXPECT_GE(report.bounds->var_at_k_upper[0], 1.0 / total);
      EXPECT_LT(report.bounds->var_at_k_upper[0] - report.bounds->var_at_k_lower[0], 1e-9);
      EXPECT_LE(report.bounds->var_at_k_lower[6], 1.0);
      EXPECT_EQ(report.bounds->var_at_k_upper[6] == 1.0, p <= 64) << "k >= p holds everything";
      EXPECT_TRUE(std::isnan(report.bounds->var_at_k_lower[7])) << "128 values are not kept";
      EXPECT_LE(report.bounds->stable_rank_lower, total);
      EXPECT_GE(report.bounds->stable_rank_upper, total);
    }
  }
}

TEST(Judgement, MeasurementsBeginByTheShape) {
  struct Shape {
    std::int64_t rows, cols;
    bool with_tail, without_tail;  // whether `default` begins in float64
  };
  for (const Shape& shape : {Shape{4096, 4096, false, true},
                             {384, 384, true, true},
                             {512, 7168, true, true},
                             {513, 7168, false, false},
                             {4096, 4160, false, true},
                             {4160, 4096, false, true},
                             {1, 1, true, true},
                             {4096, 4352, false, false},
                             {3072, 4096, false, false},
                             {7168, 2048, false, false}}) {
    SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.cols));
    for (const std::int64_t most : {0, 8}) {
      MeasureOptions options;
      const auto begun = [&](Step first) {
        return begin_measurement(first, shape.rows, shape.cols, options,
                                 {.sum_terms = 7.0, .max_tail_values = most});
      };
      const bool at_once = most > 0 ? shape.with_tail : shape.without_tail;
      EXPECT_EQ(begun(Step::kGram32).step, at_once ? Step::kGram64 : Step::kGram32);
      EXPECT_FALSE(begun(Step::kGram32).is_strict);
      EXPECT_EQ(begun(Step::kGram32).sum_terms, 7.0);
      EXPECT_EQ(begun(Step::kGram32).max_tail_values, most);
      EXPECT_EQ(begun(Step::kQr).step, Step::kQr);
      EXPECT_EQ(begin_draw(Step::kGram32, shape.rows, shape.cols, options).step, Step::kGram32)
          << "draws keep the first step";
      options.escalate = false;
      EXPECT_EQ(begun(Step::kGram32).step, Step::kGram32);
      options.escalate = true;
      options.mode = SpectrumMode::kFast;
      EXPECT_EQ(begun(Step::kGram32).step,
                std::min(shape.rows, shape.cols) <= kFloat64Size ? Step::kGram64 : Step::kGram32);
      EXPECT_EQ(begun(Step::kTop).step, Step::kTop);
      options.mode = SpectrumMode::kStrict;
      EXPECT_TRUE(begun(Step::kGram64).is_strict);
    }
  }
}

TEST(Judgement, DrawsAreNotEscalated) {
  const StepResult hard = found_with({20.0, 1e-9});
  StepResult lost = hard;
  lost.sigma.clear();
  EXPECT_EQ(judge_draw(hard, at(Step::kGram32, SpectrumMode::kDefault)).next, std::nullopt);
  EXPECT_EQ(judge_draw(lost, at(Step::kGram32, SpectrumMode::kDefault)).next, std::nullopt);
  EXPECT_EQ(judge_draw(hard, at(Step::kGram64, SpectrumMode::kDefault)).next, std::nullopt);
  EXPECT_EQ(judge_draw(hard, at(Step::kGram64, SpectrumMode::kFast)).next, std::nullopt);
  EXPECT_EQ(judge_draw(hard, at(Step::kTop, SpectrumMode::kFast)).next, std::nullopt)
      << "without bounds";
  EXPECT_EQ(judge_draw(lost, at(Step::kTop, SpectrumMode::kFast)).next, Step::kGram64);
  EXPECT_EQ(judge_draw(hard, at(Step::kGram64, SpectrumMode::kStrict)).next, Step::kQr);
  EXPECT_EQ(judge_draw(hard, at(Step::kGram64, SpectrumMode::kStrict)).lost, 1);
  EXPECT_EQ(judge_draw(lost, at(Step::kGram64, SpectrumMode::kStrict)).next, Step::kQr);
  EXPECT_EQ(judge_draw(hard, at(Step::kQr, SpectrumMode::kStrict)).next, std::nullopt);
}

}  // namespace
}  // namespace vindex::statistics::judgement_test
