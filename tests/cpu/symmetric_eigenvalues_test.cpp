// Eigenvalues of symmetric matrices that are known in closed form.
#include "cpu/tridiagonal/symmetric_eigenvalues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace vindex::cpu::symmetric_eigenvalues_test {
namespace {

TEST(SymmetricEigenvalues, OfTwoByTwoByHand) {
  std::vector<double> matrix = {2.0, 1.0, 1.0, 2.0};
  const std::vector<double> values = symmetric_eigenvalues(matrix, 2);
  EXPECT_NEAR(values[0], 1.0, 1e-14);
  EXPECT_NEAR(values[1], 3.0, 1e-14);
  std::vector<double> one = {-7.0};
  EXPECT_EQ(symmetric_eigenvalues(one, 1), std::vector<double>{-7.0});
}

// min(i, j) counted from 1 is the inverse of a second difference with one free end: its eigenvalues
// are 1 / (4 sin^2((2k - 1) pi / (4n + 2))). Sizes on either side of the two-stage reduction.
TEST(SymmetricEigenvalues, OfMinimaInClosedForm) {
  for (const std::int64_t n : {std::int64_t{7}, std::int64_t{300}}) {
    std::vector<double> matrix;
    for (std::int64_t i = 1; i <= n; ++i) {
      for (std::int64_t j = 1; j <= n; ++j) {
        matrix.push_back(static_cast<double>(std::min(i, j)));
      }
    }
    const std::vector<double> values = symmetric_eigenvalues(matrix, n);
    ASSERT_EQ(static_cast<std::int64_t>(values.size()), n);
    const double largest = values.back();
    for (std::int64_t k = 1; k <= n; ++k) {
      const double angle = (2.0 * static_cast<double>(k) - 1.0) * std::numbers::pi /
                           (2.0 * static_cast<double>(n) + 1.0);
      const double expected = 0.25 / (std::sin(0.5 * angle) * std::sin(0.5 * angle));
      EXPECT_NEAR(values[static_cast<std::size_t>(n - k)], expected, 1e-13 * largest) << n;
    }
  }
}

}  // namespace
}  // namespace vindex::cpu::symmetric_eigenvalues_test
