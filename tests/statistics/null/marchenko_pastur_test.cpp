// The Marchenko-Pastur law against quadrature, and its quantiles.
#include "statistics/spectrum/noise_spectrum.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace vindex::statistics::marchenko_pastur_test {
namespace {

const std::vector<double> kAspects = {1e-6, 1e-4, 0.02, 2.0 / 7.0, 0.875, 4095.0 / 4096.0, 1.0};

// The law by quadrature alone: midpoint rule in the angle, where the density is smooth.
double probability_below(double aspect, double x, int count) {
  const double root = std::sqrt(aspect);
  const double angle = std::acos((1.0 + aspect - x) / (2.0 * root));
  double probability = 0.0;
  for (int i = 0; i < count; ++i) {
    const double at = angle * (i + 0.5) / count;
    const double weight = angle / count * 2.0 / std::numbers::pi * std::sin(at) * std::sin(at);
    probability += weight / (1.0 + aspect - 2.0 * root * std::cos(at));
  }
  return probability;
}

// Golden: metrics_golden.py (scipy.integrate.quad over the density, scipy.optimize.brentq).
TEST(MarchenkoPasturTest, CumulativeEqualsScipyQuadrature) {
  struct Golden {
    double aspect, x, cumulative;
  };
  const std::vector<Golden> golden = {
      {1e-4, 0.9804999999999999, 0.0017264937628787872},
      {1e-4, 0.9921, 0.2556028273141178},
      {1e-4, 1.0161, 0.9488618157190152},
      {2.0 / 7.0, 0.2380502174175821, 0.007379687533299409},
      {2.0 / 7.0, 0.8580962986544066, 0.47135057590883106},
      {2.0 / 7.0, 2.1409502598340437, 0.9766183518233383},
      {0.875, 0.04158788048076872, 0.07918888603192958},
      {0.875, 1.1266685226452116, 0.6381340719001821},
      {0.875, 3.371662954709576, 0.9852146682947793},
      {1.0, 0.04, 0.12711142843046183},
      {1.0, 1.2, 0.6607459491435451},
      {1.0, 3.6, 0.9861531670111411},
  };
  for (const Golden& row : golden) {
    EXPECT_NEAR(MarchenkoPastur(row.aspect).cumulative(row.x), row.cumulative, 1e-12)
        << row.aspect << " " << row.x;
  }
  EXPECT_NEAR(MarchenkoPastur(1e-4).median(), 0.9999666665678986, 1e-12);
  EXPECT_NEAR(MarchenkoPastur(2.0 / 7.0).median(), 0.9038871466582936, 1e-12);
  EXPECT_NEAR(MarchenkoPastur(0.875).median(), 0.6982504680163554, 1e-12);
  EXPECT_NEAR(MarchenkoPastur(1.0).median(), 0.6527759416335701, 1e-12);
}

TEST(MarchenkoPasturTest, TheClosedFormEqualsQuadratureThatHasConverged) {
  for (const double aspect : kAspects) {
    const MarchenkoPastur law(aspect);
    for (const double part : {0.1, 0.37, 0.5, 0.82, 0.97}) {
      const double x = law.lower_edge() + part * (law.upper_edge() - law.lower_edge());
      const double coarse = probability_below(aspect, x, 40000);
      const double fine = probability_below(aspect, x, 80000);
      ASSERT_NEAR(coarse, fine, 1e-8) << aspect << " " << part;
      EXPECT_NEAR(law.cumulative(x), fine, 1e-8) << aspect << " " << part;
    }
  }
}

TEST(MarchenkoPasturTest, QuantileInvertsCumulative) {
  for (const double aspect : kAspects) {
    const MarchenkoPastur law(aspect);
    for (const double probability : {1e-6, 0.01, 0.3, 0.5, 0.9, 0.999999}) {
      EXPECT_NEAR(law.cumulative(law.quantile(probability)), probability, 1e-11)
          << aspect << " " << probability;
    }
    EXPECT_EQ(law.quantile(0.0), law.lower_edge());
    EXPECT_DOUBLE_EQ(law.quantile(1.0), law.upper_edge());
    EXPECT_EQ(law.cumulative(law.lower_edge()), 0.0);
    EXPECT_EQ(law.cumulative(law.upper_edge()), 1.0);
    EXPECT_EQ(law.cumulative(-1.0), 0.0);
    EXPECT_EQ(law.cumulative(9.0), 1.0);
  }
}

TEST(MarchenkoPasturTest, AnglesRunFromEdgeToEdge) {
  for (const double aspect : kAspects) {
    const MarchenkoPastur law(aspect);
    EXPECT_EQ(law.value_at(0.0), law.lower_edge());
    EXPECT_DOUBLE_EQ(law.value_at(std::numbers::pi), law.upper_edge());
    EXPECT_NEAR(law.probability_below(std::numbers::pi), 1.0, 1e-15);
    for (const double angle : {0.3, 1.5, 2.9}) {
      EXPECT_NEAR(law.probability_below(angle), law.cumulative(law.value_at(angle)), 1e-12);
    }
  }
}

}  // namespace
}  // namespace vindex::statistics::marchenko_pastur_test
