// Which values of a spectrum a tail replaces, and what error each of them answers for, by hand.
#include "statistics/judgement/tail_values.hpp"

#include "statistics/judgement/step_result.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace vindex::test::tail_values_test {
namespace {

using statistics::StepResult;
using statistics::TailBasis;

/// Squares known to 1.9e-8 by the model.
StepResult lossy() {
  StepResult before;
  before.sigma = {1.0, 0.5, 0.1, 1e-3, 5e-4};
  before.rounding.entry = 1e-9;
  return before;
}

TEST(TailValues, ResidualsOverTheGapBoundTheError) {
  const std::vector<double> sigma = {0.1, 9.9e-4, 4.9e-4};
  const std::vector<double> residuals = {1e-3, 1e-9, 1e-12};
  StepResult found;
  ASSERT_TRUE(
      take_tail({.sigma = sigma, .residuals = residuals, .max_settled = 2}, 2, lossy(), found));
  EXPECT_EQ(found.sigma, (std::vector<double>{1.0, 0.5, 0.1, 9.9e-4, 4.9e-4}));
  ASSERT_EQ(found.tail_errors.size(), 2U);
  const double floor = 5.0 * 0x1p-52;
  EXPECT_NEAR(found.tail_errors[0], floor + 2.0 * 1e-18 / 0.01 / (2.0 * 9.9e-4), 2e-17);
  EXPECT_NEAR(found.tail_errors[1], floor, 1e-18);
}

TEST(TailValues, WithoutAGapTheResidualIsTheError) {
  StepResult before = lossy();
  before.sigma = {1.0, 0.5, 1e-3, 1.2e-4, 1e-4};
  const std::vector<double> sigma = {1e-3, 1.2e-4, 1e-4};
  const std::vector<double> residuals = {1e-12, 1e-12, 1e-10};
  StepResult found;
  ASSERT_TRUE(
      take_tail({.sigma = sigma, .residuals = residuals, .max_settled = 1}, 1, before, found));
  EXPECT_NEAR(found.tail_errors[0], 1e-10 / 2e-4, 2e-9);
}

TEST(TailValues, RoundingOfThePassIsAdded) {
  const std::vector<double> sigma = {0.1, 9.9e-4, 4.9e-4};
  const std::vector<double> residuals = {0.0, 0.0, 0.0};
  const std::vector<double> rounding = {0.0, 0.0, 8e-12};
  StepResult found;
  ASSERT_TRUE(take_tail(
      {.sigma = sigma, .residuals = residuals, .max_settled = 2, .square_errors = rounding}, 1,
      lossy(), found));
  EXPECT_NEAR(found.tail_errors[0], 8e-12 / (2.0 * 4.9e-4), 1e-12);
}

TEST(TailValues, ABasisOfOtherValuesIsNoTail) {
  const std::vector<double> residuals = {0.0, 0.0};
  StepResult found;
  // 1e-3 is missed: its place holds 0.1.
  EXPECT_FALSE(take_tail(
      {.sigma = std::vector<double>{0.1, 4.9e-4}, .residuals = residuals, .max_settled = 2}, 2,
      lossy(), found));
  EXPECT_EQ(found.sigma, lossy().sigma);
  EXPECT_TRUE(found.tail_errors.empty());
  EXPECT_FALSE(take_tail({.sigma = std::vector<double>{9.9e-4, std::nan("")},
                          .residuals = residuals,
                          .max_settled = 2},
                         1, lossy(), found));
}

}  // namespace
}  // namespace vindex::test::tail_values_test
