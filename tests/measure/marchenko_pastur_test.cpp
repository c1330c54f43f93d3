#include <vindex/measure/marchenko_pastur.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace vindex::measure {
namespace {

const std::vector<double> kAspects = {1e-6, 1e-4, 0.02, 2.0 / 7.0, 0.875, 4095.0 / 4096.0, 1.0};

// The law by quadrature alone: midpoint rule in the angle, where the density is smooth.
struct Sums {
  double probability, share;
};
Sums sums_below(double aspect, double x, int count) {
  const double root = std::sqrt(aspect);
  const double angle = std::acos((1.0 + aspect - x) / (2.0 * root));
  Sums sums{0.0, 0.0};
  for (int i = 0; i < count; ++i) {
    const double at = angle * (i + 0.5) / count;
    const double weight = angle / count * 2.0 / std::numbers::pi * std::sin(at) * std::sin(at);
    sums.share += weight;
    sums.probability += weight / (1.0 + aspect - 2.0 * root * std::cos(at));
  }
  return sums;
}

double mean_of(const MarchenkoPastur& law, double (*f)(double)) {
  double sum = 0.0;
  for (std::size_t i = 0; i < law.nodes().size(); ++i) {
    sum += law.weights()[i] * f(law.nodes()[i]);
  }
  return sum;
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

TEST(MarchenkoPasturTest, ClosedFormsEqualQuadratureThatHasConverged) {
  for (const double aspect : kAspects) {
    const MarchenkoPastur law(aspect);
    for (const double part : {0.1, 0.37, 0.5, 0.82, 0.97}) {
      const double x = law.lower_edge() + part * (law.upper_edge() - law.lower_edge());
      const Sums coarse = sums_below(aspect, x, 40000);
      const Sums fine = sums_below(aspect, x, 80000);
      ASSERT_NEAR(coarse.probability, fine.probability, 1e-8) << aspect << " " << part;
      EXPECT_NEAR(law.cumulative(x), fine.probability, 1e-8) << aspect << " " << part;
      EXPECT_NEAR(law.cumulative_share(x), fine.share, 1e-8) << aspect << " " << part;
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

TEST(MarchenkoPasturTest, TopFractionInvertsTopShare) {
  for (const double aspect : kAspects) {
    const MarchenkoPastur law(aspect);
    double before = 0.0;
    for (const double fraction : {1e-5, 0.01, 0.25, 0.5, 0.99}) {
      const double share = law.top_share(fraction);
      EXPECT_GT(share, fraction) << "the largest values carry more than their number";
      EXPECT_GT(share, before);
      EXPECT_NEAR(law.top_fraction(share), fraction, 1e-11) << aspect;
      EXPECT_NEAR(share, 1.0 - law.cumulative_share(law.quantile(1.0 - fraction)), 1e-9);
      before = share;
    }
    EXPECT_NEAR(law.top_share(0.0), 0.0, 1e-15);
    EXPECT_NEAR(law.top_share(1.0), 1.0, 1e-15);
    EXPECT_EQ(law.top_fraction(0.0), 0.0);
    EXPECT_EQ(law.top_fraction(1.0), 1.0);
  }
}

// Moments 1, 1 + g, 1 + 3 g + g^2; E x ln x = g/2 (Page 1993); E ln x = -1 - (1-g)/g ln(1-g).
TEST(MarchenkoPasturTest, NodesGiveTheKnownMeans) {
  for (const double g : kAspects) {
    const MarchenkoPastur law(g);
    EXPECT_NEAR(mean_of(law, [](double) { return 1.0; }), 1.0, 1e-11) << g;
    EXPECT_NEAR(mean_of(law, [](double x) { return x; }), 1.0, 1e-12) << g;
    EXPECT_NEAR(mean_of(law, [](double x) { return x * x; }), 1.0 + g, 1e-12) << g;
    EXPECT_NEAR(mean_of(law, [](double x) { return x * x * x; }), 1.0 + 3.0 * g + g * g, 1e-11);
    EXPECT_NEAR(mean_of(law, [](double x) { return x * std::log(x); }), 0.5 * g, 1e-11) << g;
    const double mean_log = g < 1.0 ? -1.0 - (1.0 - g) / g * std::log1p(-g) : -1.0;
    EXPECT_NEAR(mean_of(law, [](double x) { return std::log(x); }), mean_log, 1e-10) << g;
  }
  // Square: sqrt(x) = 2 sin(theta/2), mean 8 / (3 pi).
  EXPECT_NEAR(mean_of(MarchenkoPastur(1.0), [](double x) { return std::sqrt(x); }),
              8.0 / (3.0 * std::numbers::pi), 1e-11);
}

TEST(MarchenkoPasturTest, MeanLogExcessOfTheWholeLawIsTheMeanLogAboveTheLowerEdge) {
  for (const double g : {0.02, 2.0 / 7.0, 0.875}) {
    const MarchenkoPastur law(g);
    EXPECT_NEAR(law.mean_log_excess(1.0),
                -1.0 - (1.0 - g) / g * std::log1p(-g) - std::log(law.lower_edge()), 1e-10);
    // By parts: the integral of (1 - F(x)) / x from the threshold to the upper edge.
    const double low = law.quantile(0.6);
    const int count = 20000;
    double sum = 0.0;
    for (int i = 0; i < count; ++i) {
      const double x = low + (law.upper_edge() - low) * (i + 0.5) / count;
      sum += (1.0 - law.cumulative(x)) / x * (law.upper_edge() - low) / count;
    }
    EXPECT_NEAR(law.mean_log_excess(0.4), sum, 1e-8);
  }
}

}  // namespace
}  // namespace vindex::measure
