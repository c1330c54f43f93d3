// The jackknife of a CKA: by hand, at the ends of its range, and Student's quantiles.
#include "statistics/cka/cka.hpp"
#include "statistics/samples/student.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::statistics::jackknife_test {
namespace {

using Values = std::vector<double>;

// Of the mean of n values, whose mean without value i is (n mean - x_i) / (n - 1), the jackknife is
// the textbook's standard error.
TEST(JackknifeTest, OfAMeanIsItsStandardError) {
  const std::vector<double> values = {0.1, 0.3, 0.2, 0.6, 0.3};
  const double mean = 0.3;
  std::vector<double> without;
  double squares = 0.0;
  for (const double value : values) {
    without.push_back((5.0 * mean - value) / 4.0);
    squares += (value - mean) * (value - mean);
  }
  EXPECT_NEAR(jackknife_error(mean, without, 1.0).error, std::sqrt(squares / 4.0 / 5.0), 1e-15);
}

// The ends solve what the header says they solve.
TEST(JackknifeTest, EndsAreThoseOfTheEquation) {
  for (const double value : {-0.2, 0.0, 0.02, 0.4, 0.95, 0.9999}) {
    std::vector<double> without;
    std::vector<double> turned;
    for (int g = 0; g < 12; ++g) {
      without.push_back(value + 0.02 * (1.0 - value) * (g == 3 ? 4.0 : g % 4 - 1.5));
      turned.push_back(std::atanh(without.back()));
    }
    const double directions = value < 0.1 ? 6.0 : 1.0;
    const JackknifeError found = jackknife_error(value, without, directions);
    double mean = 0.0;
    for (const double z : turned) {
      mean += z / 12.0;
    }
    double squares = 0.0;
    double fourth = 0.0;
    for (const double z : turned) {
      squares += (z - mean) * (z - mean);
      fourth += std::pow(z - mean, 4.0);
    }
    const double freedom = std::min(11.0, 24.0 / (12.0 * fourth / (squares * squares) - 1.0));
    const double error_z = std::sqrt(11.0 / 12.0 * squares);
    const double at_zero = 0.5 * directions * found.error;
    const double own = std::max(value, 0.0) + at_zero;
    for (const double end : {found.low, found.high}) {
      const double allowed =
          student_quantile(freedom) * error_z * std::sqrt((std::max(end, 0.0) + at_zero) / own);
      EXPECT_NEAR(std::abs(std::atanh(end) - std::atanh(value)), allowed, 1e-9 + 1e-6 * allowed)
          << value;
    }
    EXPECT_LT(found.low, value);
    EXPECT_GT(found.high, value);
    EXPECT_GT(found.low, -1.0);
    EXPECT_LT(found.high, 1.0);
  }
}

TEST(JackknifeTest, CertainAndUndefinedValues) {
  const JackknifeError certain = jackknife_error(1.0, Values(9, 1.0), 1.0);
  EXPECT_EQ(certain.error, 0.0);
  EXPECT_EQ(certain.low, 1.0);
  EXPECT_EQ(certain.high, 1.0);
  // Rounding alone keeps them from 1.
  const JackknifeError near =
      jackknife_error(1.0, Values{1.0, 1.0 - 5e-8, 1.0, 1.0 - 2e-8, 1.0, 1.0}, 1.0);
  EXPECT_EQ(near.high, 1.0);
  EXPECT_GT(near.low, 0.999999);
  const double nan = std::nan("");
  EXPECT_TRUE(std::isnan(jackknife_error(nan, Values(9, 0.5), 1.0).error));
  EXPECT_TRUE(std::isnan(jackknife_error(0.5, Values{0.5, nan, 0.5, 0.5, 0.5, 0.5}, 1.0).low));
  EXPECT_TRUE(std::isnan(jackknife_error(0.5, Values(4, 0.5), 1.0).high));
  // Prompts that say opposite things: the whole range, and no more.
  const JackknifeError wide = jackknife_error(0.0, Values{0.9, -0.9, 0.9, -0.9, 0.9, -0.9}, 1.0);
  EXPECT_GE(wide.low, -1.0);
  EXPECT_LE(wide.high, 1.0);
  EXPECT_LT(wide.low, -0.9);
  EXPECT_GT(wide.high, 0.9);
}

// Of n rows along d directions, each row one of them or its opposite: the kernel is 1 between equal
// rows, -1 between opposite ones.
TEST(JackknifeTest, DirectionsAreCounted) {
  // trace n; off the diagonal n (n / d - 1) ones: n = 40, d = 4.
  EXPECT_NEAR(varying_directions(40, 40.0, 40.0 * 9.0), 4.0, 0.2);
  EXPECT_EQ(varying_directions(40, 40.0, 40.0 * 39.0), 1.0);
}

}  // namespace
}  // namespace vindex::statistics::jackknife_test
