// The smallest singular values of a triangular factor by inverse iteration.
#include "cpu/strict/strict_qr.hpp"
#include "tests/support/known_spectra.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace vindex::test::strict_tail_test {
namespace {

/// Upper triangle of a random matrix whose trailing diagonal entries are tiny, with its reference.
struct Triangle {
  std::vector<double> r;
  std::vector<double> sigma;
};
Triangle tiny_triangle(std::int64_t p, const std::vector<double>& tiny) {
  const FloatMatrix noise = gaussian_matrix(p, p, 3, 0.05);
  FloatMatrix matrix{p, p, std::vector<float>(static_cast<std::size_t>(p * p), 0.0F)};
  Triangle out;
  out.r.assign(static_cast<std::size_t>(p * p), 0.0);
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      matrix.at(i, j) = noise.at(i, j) + (i == j ? 1.0F : 0.0F);
    }
  }
  for (std::size_t k = 0; k < tiny.size(); ++k) {
    const auto place = static_cast<std::int64_t>(7 * (k + 1));
    matrix.at(place, place) = static_cast<float>(tiny[k]);
  }
  for (std::int64_t j = 0; j < p; ++j) {
    for (std::int64_t i = 0; i <= j; ++i) {
      out.r[static_cast<std::size_t>(j * p + i)] = static_cast<double>(matrix.at(i, j));
    }
  }
  out.sigma = reference_singular_values(matrix);
  return out;
}

TEST(StrictTail, FindsTheSmallestValuesAndLeavesTheFactorAlone) {
  int found = 0;
  for (const std::vector<double>& tiny :
       {std::vector<double>{1e-7}, {1e-4, 1e-5}, {0.0}, {1e-3, 1e-12, 1e-20}, {0.0, 0.0, 0.0}}) {
    Triangle triangle = tiny_triangle(120, tiny);
    const std::vector<double> before = triangle.r;
    cpu::Workspace workspace(cpu::tail_bytes(120));
    const auto count = static_cast<std::int64_t>(tiny.size());
    const auto values = cpu::smallest_singular_values(triangle.r.data(), 120, count,
                                                      triangle.sigma.front(), workspace);
    EXPECT_EQ(triangle.r, before);
    found += values.empty() ? 0 : 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], triangle.sigma[120 - tiny.size() + i],
                  2 * 120 * std::numeric_limits<double>::epsilon() * triangle.sigma.front());
    }
  }
  EXPECT_GE(found, 3) << "the last two may be refused";
  EXPECT_GE(found, 3) << "the last two may be refused";
}

TEST(StrictTail, SaysSoWhereTheFactorIsNotFinite) {
  Triangle triangle = tiny_triangle(64, {1e-7});
  triangle.r[64 * 63 + 5] = std::numeric_limits<double>::quiet_NaN();
  cpu::Workspace workspace(0);
  EXPECT_TRUE(cpu::smallest_singular_values(triangle.r.data(), 64, 1, 2.0, workspace).empty());
}

}  // namespace
}  // namespace vindex::test::strict_tail_test
