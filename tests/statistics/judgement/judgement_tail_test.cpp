// When the judgement wants the smallest values again, and when it takes them.
#include "judged_findings.hpp"

#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/step_result.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace vindex::statistics::judgement_tail_test {
namespace {

/// 64 values well above, of which more is promised, and these.
std::vector<double> above(const std::vector<double>& last) {
  std::vector<double> sigma;
  for (int i = 0; i < 64; ++i) {
    sigma.push_back(1.0 - 0.005 * i);
  }
  sigma.insert(sigma.end(), last.begin(), last.end());
  return sigma;
}
constexpr std::int64_t kP = 66;

TEST(Judgement, DefaultAsksForMoreWhereAValueIsKnownTooBadly) {
  // Entries of 1e-10: a square is known to 1e-9, so a value of 0.05 to 1e-8, one of 1e-3 to 5e-7,
  // one of 1e-4 to 5e-6 and one of 3e-5 not at all.
  constexpr double kEntry = 1e-10;
  struct Row {
    std::vector<double> sigma;
    std::int64_t lost;
  };
  for (const Row& row : {Row{{0.2, 0.05}, 0},
                         {{0.05, 1e-3}, 0},
                         {{0.05, 1e-4}, 1},
                         {{1e-4, 3e-5}, 2},
                         {{0.05, 0.0}, 1}}) {
    SCOPED_TRACE(row.sigma.back());
    const StepResult found = found_with(above(row.sigma), kEntry);
    const StepContext situation = at(Step::kGram32, SpectrumMode::kDefault, true, kP);
    MatrixReport report;
    NextStep verdict = judge(found, situation, report);
    EXPECT_EQ(verdict.next, row.lost > 0 ? std::optional(Step::kGram64) : std::nullopt);
    EXPECT_EQ(report.escalated, row.lost > 0);
    EXPECT_GT(report.sigma_error, 0.0);
    report = {};
    verdict = judge(found, with_tail(situation, 2), report);
    EXPECT_EQ(verdict.next, row.lost > 0 ? std::optional(Step::kTail) : std::nullopt);
    EXPECT_EQ(verdict.lost, row.lost);
    EXPECT_FALSE(report.escalated) << "a part of the route";
    verdict = judge(found, with_tail(situation, 0), report);
    EXPECT_EQ(verdict.next, row.lost > 0 ? std::optional(Step::kGram64) : std::nullopt);
  }
  // A modest condition is promised less.
  MatrixReport report;
  const StepResult modest = found_with(above({0.05, 0.011}), 1e-8);
  EXPECT_EQ(judge(modest, at(Step::kGram32, SpectrumMode::kDefault, true, kP), report).next,
            std::nullopt);
  const StepResult beyond = found_with(above({0.05, 0.009}), 1e-8);
  EXPECT_EQ(judge(beyond, at(Step::kGram32, SpectrumMode::kDefault, true, kP), report).next,
            Step::kGram64);
}

TEST(Judgement, AValueAtTheThresholdOfTheRankIsDecided) {
  // n = 1000: the threshold is 1000 * 2^-23, and a value there is known to 4e-11 of s_1.
  const double threshold = 1000.0 * 0x1p-23;
  MatrixReport report;
  StepContext situation = with_tail(at(Step::kGram64, SpectrumMode::kDefault, true, 3), 1);
  situation.cols = 1000;
  const auto next_of = [&](double value, double entry) {
    return judge(found_with({1.0, 0.5, value}, entry), situation, report).next;
  };
  EXPECT_EQ(next_of(threshold * 1.01, 1e-15), std::nullopt);
  EXPECT_EQ(next_of(threshold * (1.0 + 1e-9), 1e-15), Step::kTail);
}

TEST(Judgement, ATailIsTakenWhereItIsGoodEnough) {
  StepResult found = found_with(above({0.05, 1e-4}), 1e-10);
  for (const Step before : {Step::kGram32, Step::kGram64}) {
    for (const bool escalate : {true, false}) {
      const StepContext situation =
          with_tail(at(Step::kTail, SpectrumMode::kDefault, escalate, kP), 1, before);
      MatrixReport report;
      found.tail_errors = {1e-6};
      EXPECT_EQ(judge(found, situation, report).next, std::nullopt);
      EXPECT_EQ(report.sigma_error, 1e-6);
      EXPECT_TRUE(report.tail_reliable);
      EXPECT_FALSE(report.escalated);
      // Errors that are too large, and a tail that did not settle.
      for (const std::vector<double>& errors : {std::vector<double>{5e-6}, {}}) {
        found.tail_errors = errors;
        report = {};
        const Step next = before == Step::kGram32 ? Step::kGram64 : Step::kQr;
        EXPECT_EQ(judge(found, situation, report).next,
                  escalate ? std::optional(next) : std::nullopt);
        EXPECT_EQ(report.escalated, escalate);
        EXPECT_EQ(report.tail_reliable, escalate);
      }
    }
  }
  // What lies below 4e-5 s_1 must be known as in `strict`.
  StepResult tiny = found_with(above({0.05, 1e-5}), 1e-10);
  const StepContext situation = with_tail(at(Step::kTail, SpectrumMode::kDefault, true, kP), 1);
  MatrixReport report;
  tiny.tail_errors = {1e-9};
  EXPECT_EQ(judge(tiny, situation, report).next, Step::kGram64);
  tiny.tail_errors = {1e-14};
  EXPECT_EQ(judge(tiny, situation, report).next, std::nullopt);
  EXPECT_FALSE(is_tail_enough(tiny.sigma, std::vector<double>{1e-9}, situation));
  EXPECT_TRUE(is_tail_enough(tiny.sigma, tiny.tail_errors, situation));
}

TEST(Judgement, TheFirstValuesAndThoseAboveAHundredthArePromisedMore) {
  // Known to 4e-7 and 4e-8: 1e-5 relative of a value of 0.02, 2e-4 of one of 0.011 twice over.
  MatrixReport report;
  const auto next_of = [&](const std::vector<double>& sigma, double entry) {
    return judge(found_with(sigma, entry),
                 with_tail(at(Step::kGram32, SpectrumMode::kDefault, true,
                              static_cast<std::int64_t>(sigma.size())),
                           8),
                 report)
        .next;
  };
  EXPECT_EQ(next_of({1.0, 0.5, 0.02, 0.005}, 1e-9), Step::kTail);
  EXPECT_EQ(next_of({1.0, 0.5, 0.02, 0.005}, 1e-11), std::nullopt);
  EXPECT_EQ(next_of(above({0.0101, 0.009}), 8e-9), Step::kTail);
  EXPECT_EQ(next_of(above({0.012, 0.009}), 4e-9), std::nullopt);
}

TEST(Judgement, QrFollowsAtOnceWhereAFloat64GramIsSeenToHoldNoMore) {
  // A square is known to 1e-15, so a value of 1e-6 to 3e-8, and none of them to 7e-13.
  constexpr double kEntry = 1e-16;
  const std::vector<double> three = above({0.05, 1e-6, 1e-6, 1e-6});
  const auto p = static_cast<std::int64_t>(three.size());
  const auto next_of = [&](const std::vector<double>& sigma, double entry, bool has_float64_sums,
                           std::int64_t most) {
    StepResult found = found_with(sigma, entry);
    found.has_float64_sums = has_float64_sums;
    MatrixReport report;
    const NextStep verdict =
        judge(found, with_tail(at(Step::kGram32, SpectrumMode::kDefault, true, p), most), report);
    EXPECT_EQ(report.escalated, verdict.next == Step::kQr || verdict.next == Step::kGram64);
    if (verdict.next == Step::kQr) {
      EXPECT_EQ(verdict.lost, 3);
    }
    return verdict.next;
  };
  EXPECT_EQ(next_of(three, kEntry, true, 2), Step::kQr);
  EXPECT_EQ(next_of(three, kEntry, true, 3), Step::kTail);
  // Sums in float32 say nothing of those in float64.
  EXPECT_EQ(next_of(three, kEntry, false, 2), Step::kGram64);
  // Values that lie above what a float64 Gram resolves, or may by what is known of them; a tail
  // holds the others.
  EXPECT_EQ(next_of(above({0.05, 1e-3, 1e-6, 1e-6}), 1e-9, true, 2), Step::kGram64);
  EXPECT_EQ(next_of(three, 1e-9, true, 2), Step::kGram64);
  EXPECT_EQ(next_of(above({0.05, 4.1e-5, 1e-6, 1e-6}), 1e-10, true, 2), Step::kGram64);
  // Of one whose back end has no tail, QR of few values is the cheaper one behind kGram64.
  EXPECT_EQ(next_of(three, kEntry, true, 0), Step::kGram64);
  // Lines that are zero are no lost values.
  StepResult found = found_with(above({0.05, 1e-6, 0.0, 0.0}), kEntry);
  found.has_float64_sums = true;
  found.zero_rows = 2;
  MatrixReport report;
  EXPECT_EQ(
      judge(found, with_tail(at(Step::kGram32, SpectrumMode::kDefault, true, p), 2), report).next,
      Step::kGram64);
}

TEST(Judgement, QrOfTheLastValuesAnswersForTheOthersAsTheirGramDoes) {
  StepResult found = found_with({20.0, 5.0, 1e-3}, 1e-12);
  const StepContext situation = at(Step::kQr, SpectrumMode::kDefault, true, 3);
  MatrixReport report;
  EXPECT_EQ(judge(found, situation, report).next, std::nullopt);
  EXPECT_LT(report.sigma_error, 1e-13) << "all its own";
  found.tail_errors = {1e-15};
  EXPECT_EQ(judge(found, situation, report).next, std::nullopt);
  EXPECT_GT(report.sigma_error, 1e-11);
}

TEST(Judgement, StrictTakesATailBeforeQr) {
  const StepContext strict = with_tail(at(Step::kGram64, SpectrumMode::kStrict), 1);
  MatrixReport report;
  const NextStep verdict = judge(found_with({20.0, 0.99}), strict, report);
  EXPECT_EQ(verdict.next, Step::kTail);
  EXPECT_EQ(verdict.lost, 1);
  StepResult tail = found_with({20.0, 0.99});
  tail.tail_errors = {1e-14};
  const StepContext after = with_tail(at(Step::kTail, SpectrumMode::kStrict), 1, Step::kGram64);
  EXPECT_EQ(judge(tail, after, report).next, std::nullopt);
  tail.tail_errors = {1e-9};
  EXPECT_EQ(judge(tail, after, report).next, Step::kQr);
  EXPECT_FALSE(report.escalated);
  StepResult dead = found_with({20.0, 19.0, 1e-3, 0.0});
  dead.zero_rows = 1;
  EXPECT_EQ(judge(dead, strict, report).next, Step::kQr) << "a tail has no exact zeros";
}

}  // namespace
}  // namespace vindex::statistics::judgement_tail_test
