// Eigenvalues of tridiagonal matrices: closed forms, an independent count in long double, and equal
// bits from every SIMD level.
#include "cpu/tridiagonal/simd_bisection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

namespace vindex::cpu::simd_bisection_test {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
// In units of eps64 ||T||; at most 5 were seen (dsterf: 40).
constexpr double kAllowedError = 10.0;

struct Tridiagonal {
  std::vector<double> d, e;
};

std::vector<double> solve(const Tridiagonal& t, SimdLevel level = best_simd_level()) {
  std::vector<double> values(t.d.size());
  tridiagonal_eigenvalues(t.d, t.e, values, level);
  return values;
}

double norm_of(const Tridiagonal& t) {
  double norm = 0.0;
  for (std::size_t i = 0; i < t.d.size(); ++i) {
    norm = std::max(norm, std::abs(t.d[i]) + (i > 0 ? std::abs(t.e[i - 1]) : 0.0) +
                              (i + 1 < t.d.size() ? std::abs(t.e[i]) : 0.0));
  }
  return norm;
}

// Eigenvalues below x, by quotients of minors in long double.
std::int64_t count_below(const Tridiagonal& t, long double x) {
  std::int64_t count = 0;
  long double quotient = 1.0L;
  for (std::size_t i = 0; i < t.d.size(); ++i) {
    const long double off = i > 0 ? static_cast<long double>(t.e[i - 1]) : 0.0L;
    quotient = static_cast<long double>(t.d[i]) - x - off * off / quotient;
    if (quotient == 0.0L) {
      quotient = 1e-4000L;
    }
    count += quotient < 0.0L ? 1 : 0;
  }
  return count;
}

// Every (stride-th) value lies within the allowed distance of the true one of its rank.
void expect_accurate(const Tridiagonal& t, std::size_t stride) {
  const std::vector<double> values = solve(t);
  ASSERT_TRUE(std::is_sorted(values.begin(), values.end()));
  const long double margin = kAllowedError * kEpsilon * norm_of(t);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    EXPECT_LE(count_below(t, values[i] - margin), static_cast<std::int64_t>(i)) << i;
    EXPECT_GT(count_below(t, values[i] + margin), static_cast<std::int64_t>(i)) << i;
  }
}

Tridiagonal random_tridiagonal(std::size_t n, unsigned seed, double off_scale) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  Tridiagonal t{std::vector<double>(n), std::vector<double>(n - 1)};
  for (double& d : t.d) {
    d = normal(generator);
  }
  for (double& e : t.e) {
    e = off_scale * normal(generator);
  }
  return t;
}

TEST(TridiagonalEigenvaluesTest, SecondDifferencesHaveTheirClosedForm) {
  constexpr int kSize = 500;
  const Tridiagonal t{std::vector<double>(kSize, 2.0), std::vector<double>(kSize - 1, -1.0)};
  const std::vector<double> values = solve(t);
  for (int k = 0; k < kSize; ++k) {
    const double wanted = 2.0 - 2.0 * std::cos((k + 1) * std::numbers::pi / (kSize + 1));
    EXPECT_NEAR(values[k], wanted, 4.0 * kAllowedError * kEpsilon) << k;
  }
}

TEST(TridiagonalEigenvaluesTest, TinySizesByHand) {
  EXPECT_TRUE(solve({}).empty());
  EXPECT_EQ(solve({{-3.5}, {}}), std::vector<double>{-3.5});
  const std::vector<double> two = solve({{1.0, 1.0}, {2.0}});
  EXPECT_NEAR(two[0], -1.0, 4 * kEpsilon);
  EXPECT_NEAR(two[1], 3.0, 4 * kEpsilon);
  EXPECT_EQ(solve({{0.0, 0.0, 0.0}, {0.0, 0.0}}), std::vector<double>(3, 0.0));
  EXPECT_EQ(solve({{3.0, 1.0, 2.0}, {0.0, 0.0}}), (std::vector<double>{1.0, 2.0, 3.0}));
}

TEST(TridiagonalEigenvaluesTest, RandomMatricesMatchCountsInLongDouble) {
  for (const double off_scale : {1.0, 1e-3, 1e-9}) {
    SCOPED_TRACE(off_scale);
    expect_accurate(random_tridiagonal(400, 7, off_scale), 3);
  }
}

TEST(TridiagonalEigenvaluesTest, ClustersAndNearlyEqualPairs) {
  Tridiagonal wilkinson{std::vector<double>(201), std::vector<double>(200, 1.0)};
  for (int i = 0; i < 201; ++i) {
    wilkinson.d[i] = std::abs(i - 100);
  }
  expect_accurate(wilkinson, 1);

  Tridiagonal glued{std::vector<double>(210), std::vector<double>(209, 1.0)};
  for (int i = 0; i < 210; ++i) {
    glued.d[i] = i % 21 - 10;
    if (i % 21 == 20 && i < 209) {
      glued.e[i] = 1e-10;
    }
  }
  expect_accurate(glued, 1);

  Tridiagonal tight = random_tridiagonal(300, 3, 1e-8);
  for (double& d : tight.d) {
    d = 1e-4 + 1e-8 * d;
  }
  tight.d[0] = 1.0;
  expect_accurate(tight, 1);

  const Tridiagonal one_value{std::vector<double>(300, 1.0), std::vector<double>(299, 1e-14)};
  expect_accurate(one_value, 1);
}

TEST(TridiagonalEigenvaluesTest, GradedMatrixAndMatrixWithZeroRows) {
  Tridiagonal graded{std::vector<double>(300), std::vector<double>(299)};
  for (int i = 0; i < 300; ++i) {
    graded.d[i] = std::pow(10.0, -0.05 * i);
    if (i < 299) {
      graded.e[i] = 0.3 * graded.d[i];
    }
  }
  expect_accurate(graded, 1);
  for (int i = 100; i < 200; ++i) {
    graded.d[i] = graded.e[i] = graded.e[i - 1] = 0.0;
  }
  expect_accurate(graded, 1);
}

TEST(TridiagonalEigenvaluesTest, ScalingByPowersOfTwoIsExact) {
  const Tridiagonal t = random_tridiagonal(100, 11, 1.0);
  const std::vector<double> values = solve(t);
  for (const int exponent : {-900, 900}) {
    Tridiagonal scaled = t;
    for (double& d : scaled.d) {
      d = std::ldexp(d, exponent);
    }
    for (double& e : scaled.e) {
      e = std::ldexp(e, exponent);
    }
    const std::vector<double> scaled_values = solve(scaled);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(scaled_values[i], std::ldexp(values[i], exponent));
    }
  }
}

TEST(TridiagonalEigenvaluesTest, EveryLevelGivesTheSameBits) {
  for (const double off_scale : {1.0, 1e-6}) {
    const Tridiagonal t = random_tridiagonal(333, 5, off_scale);
    const std::vector<double> portable = solve(t, SimdLevel::kPortable);
    if (best_simd_level() >= SimdLevel::kAvx2) {
      EXPECT_EQ(solve(t, SimdLevel::kAvx2), portable);
    }
    if (best_simd_level() >= SimdLevel::kAvx512) {
      EXPECT_EQ(solve(t, SimdLevel::kAvx512), portable);
    }
  }
}

TEST(TridiagonalEigenvaluesTest, SignsOfOffDiagonalsDoNotMatter) {
  Tridiagonal t = random_tridiagonal(64, 13, 1.0);
  const std::vector<double> values = solve(t);
  for (double& e : t.e) {
    e = std::abs(e);
  }
  EXPECT_EQ(solve(t), values);
}

TEST(TridiagonalEigenvaluesTest, ANonFiniteEntryMakesEveryValueNaN) {
  Tridiagonal t = random_tridiagonal(40, 17, 1.0);
  t.e[20] = std::numeric_limits<double>::infinity();
  for (const double value : solve(t)) {
    EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace vindex::cpu::simd_bisection_test
