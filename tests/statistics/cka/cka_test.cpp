// Linear CKA on sums: small cases by hand, the estimators beside their definitions, draws.
#include "statistics/cka/cka.hpp"

#include "core/philox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace vindex::statistics::cka_test {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows noise(std::size_t rows, std::size_t cols, std::uint64_t key) {
  Rows out(rows, std::vector<double>(cols));
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) {
      double sum = -6.0;  // of twelve uniforms: near enough to a normal
      for (std::uint64_t k = 0; k < 3; ++k) {
        const PhiloxBlock block = philox_block(key, 3 * (i * cols + j) + k);
        for (const std::uint32_t word : block.word) {
          sum += static_cast<double>(word) * 0x1p-32;
        }
      }
      out[i][j] = sum;
    }
  }
  return out;
}

void centre(Rows& rows) {
  for (std::size_t j = 0; j < rows[0].size(); ++j) {
    double mean = 0.0;
    for (const auto& row : rows) {
      mean += row[j] / static_cast<double>(rows.size());
    }
    for (auto& row : rows) {
      row[j] -= mean;
    }
  }
}

Rows gram(const Rows& x) {
  Rows out(x.size(), std::vector<double>(x.size()));
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) {
      out[i][j] = std::inner_product(x[i].begin(), x[i].end(), x[j].begin(), 0.0);
    }
  }
  return out;
}

/// n (n - 3) times equation 5 of Song et al. 2012, word by word.
double song(Rows k, Rows l) {
  const std::size_t n = k.size();
  const auto size = static_cast<double>(n);
  double trace = 0.0, sum_k = 0.0, sum_l = 0.0, mixed = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    k[i][i] = l[i][i] = 0.0;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double row_k = std::accumulate(k[i].begin(), k[i].end(), 0.0);
    const double row_l = std::accumulate(l[i].begin(), l[i].end(), 0.0);
    trace += std::inner_product(k[i].begin(), k[i].end(), l[i].begin(), 0.0);
    sum_k += row_k;
    sum_l += row_l;
    mixed += row_k * row_l;
  }
  return trace + sum_k * sum_l / ((size - 1) * (size - 2)) - 2.0 / (size - 2) * mixed;
}

struct Centred {
  Rows k, l;
  KernelSums sums;
  double cross = 0.0;
};
Centred centred_pair(Rows x, Rows y) {
  centre(x);
  centre(y);
  Centred out;
  out.k = gram(x);
  out.l = gram(y);
  out.sums.rows = static_cast<std::int64_t>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.sums.trace_left += out.k[i][i];
    out.sums.trace_right += out.l[i][i];
    out.sums.diagonal += out.k[i][i] * out.l[i][i];
    out.cross += std::inner_product(out.k[i].begin(), out.k[i].end(), out.l[i].begin(), 0.0);
  }
  return out;
}

TEST(CkaTest, TheFormOfFeaturesIsSongsEstimator) {
  for (const std::size_t rows : {4U, 5U, 9U, 40U}) {
    const Rows x = noise(rows, 7, 1);
    const Rows y = noise(rows, 3, 2);
    const Centred pair = centred_pair(x, y);
    const double found = u_centred_product(pair.sums, pair.cross);
    // Song's needs no centring of features.
    EXPECT_NEAR(found, song(gram(x), gram(y)), 1e-9 * std::abs(pair.cross)) << rows;
    EXPECT_NEAR(found, song(pair.k, pair.l), 1e-9 * std::abs(pair.cross)) << rows;
    EXPECT_NEAR(squared_cross_norm(pair.sums, found), pair.cross, 1e-12 * pair.cross) << rows;
  }
}

TEST(CkaTest, TheFormOfTokensIsSongsEstimator) {
  const std::size_t n = 12;
  const Centred pair = centred_pair(noise(n, 7, 3), noise(n, 20, 4));
  double product = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    double row_sum = 0.0;
    for (std::size_t j = 0; j < n; ++j) {
      if (i != j) {
        const auto centred = [&](const Rows& k, double trace) {
          return k[i][j] + u_centring_term(pair.sums.rows, k[i][i], trace) +
                 u_centring_term(pair.sums.rows, k[j][j], trace);
        };
        const double a = centred(pair.k, pair.sums.trace_left);
        product += a * centred(pair.l, pair.sums.trace_right);
        row_sum += a;
      }
    }
    EXPECT_NEAR(row_sum, 0.0, 1e-9);  // what U-centred means
  }
  EXPECT_NEAR(product, song(pair.k, pair.l), 1e-9 * pair.cross);
}

// Rows (1, 0), (-1, 0), (0, 1), (0, -1): K is 1 on the diagonal, -1 between opposites, else 0.
// U-centred: sum k = 4, so K_ij + 1/2 + 1/2 - 4/6: -2/3 between opposites, 1/3 else; every row 0.
// ||A||^2 = 4 (4/9 + 2/9) = 8/3. Of the line 1, -1, 0, 0: k = (1, 1, 0, 0), sum 2.
TEST(CkaTest, FourPointsByHand) {
  const Rows cross = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
  const Rows line = {{1}, {-1}, {0}, {0}};
  const Centred self = centred_pair(cross, cross);
  EXPECT_DOUBLE_EQ(u_centred_product(self.sums, self.cross), 8.0 / 3.0);
  const Centred both = centred_pair(cross, line);
  // L_12 = -1 + 1/2 + 1/2 - 1/3 = -1/3, L_34 = 0 + 0 + 0 - 1/3, the others 0 + 1/2 - 1/3 = 1/6.
  // <A, B> = 2 (2/9 + 2/9 + 4/18) = 4/3; ||B||^2 = 2 (1/9 + 1/9 + 4/36) = 2/3.
  const Centred flat = centred_pair(line, line);
  EXPECT_NEAR(u_centred_product(both.sums, both.cross), 4.0 / 3.0, 1e-14);
  EXPECT_NEAR(u_centred_product(flat.sums, flat.cross), 2.0 / 3.0, 1e-14);
  EXPECT_NEAR(alignment(4.0 / 3.0, 8.0 / 3.0, 2.0 / 3.0), 1.0, 1e-14);
  // Biased: ||X^T Y||^2 = 4, ||X^T X|| = sqrt(8), ||Y^T Y|| = 2.
  EXPECT_NEAR(alignment(both.cross, self.cross, flat.cross), 1.0 / std::sqrt(2.0), 1e-14);
}

TEST(CkaTest, ASideWithoutAKernelHasNoAlignment) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(alignment(0.0, 0.0, 1.0)));
  EXPECT_TRUE(std::isnan(alignment(0.0, 1.0, -1e-9)));
  EXPECT_TRUE(std::isnan(alignment(nan, 1.0, 1.0)));
  EXPECT_TRUE(std::isnan(alignment(1.0, nan, 1.0)));
  EXPECT_TRUE(std::isnan(alignment(1.0, std::numeric_limits<double>::infinity(), 1.0)));
  EXPECT_EQ(alignment(1.0 + 1e-7, 1.0, 1.0), 1.0);
  EXPECT_EQ(alignment(-0.25, 1.0, 0.25), -0.5);
  EXPECT_EQ(alignment(1e300, 1e300, 1e300), 1.0);  // no overflow on the way
}

TEST(CkaTest, DrawnOrdersArePermutationsAndUniform) {
  const Strata all = {{0, 1, 2, 3, 4}};
  std::vector<int> first(5, 0);
  for (std::int64_t draw = 0; draw < 5000; ++draw) {
    std::vector<std::int64_t> order = drawn_order(5, all, draw);
    ++first[static_cast<std::size_t>(order[0])];
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  }
  for (const int count : first) {
    EXPECT_NEAR(count, 1000, 130);  // 4.5 standard deviations
  }
  EXPECT_EQ(drawn_order(5, all, 3), drawn_order(5, all, 3));
  EXPECT_TRUE(drawn_order(0, {}, 0).empty());
  EXPECT_EQ(drawn_order(3, {}, 7), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(CkaTest, StrataKeepTheirPlacesAndAreIndependent) {
  const Strata strata = {{0, 3}, {1, 2, 5}};
  EXPECT_NEAR(std::exp(log_orders(strata)), 12.0, 1e-12);
  std::map<std::vector<std::int64_t>, int> found;
  for (std::int64_t draw = 0; draw < 6000; ++draw) {
    const std::vector<std::int64_t> order = drawn_order(6, strata, draw);
    ASSERT_EQ(order[4], 4);
    ASSERT_EQ(std::set<std::int64_t>({order[0], order[3]}), std::set<std::int64_t>({0, 3}));
    ++found[order];
  }
  ASSERT_EQ(found.size(), 12U);
  for (const auto& [order, count] : found) {
    EXPECT_NEAR(count, 500, 100);  // 4.7 standard deviations
  }
}

TEST(CkaTest, ANullCountsDrawsOfAtLeastTheValue) {
  const PermutationNull null = null_of_draws({0.1, 0.2, 0.3, 0.4}, 0.3);
  EXPECT_DOUBLE_EQ(null.mean, 0.25);
  EXPECT_DOUBLE_EQ(null.p, 3.0 / 5.0);
  EXPECT_NEAR(null.q95, 0.385, 1e-12);
  EXPECT_DOUBLE_EQ(null_of_draws({0.1, 0.2}, 0.2 + 5e-7).p, 2.0 / 3.0);  // rounding
  EXPECT_DOUBLE_EQ(null_of_draws({0.1}, 0.1 + 5e-10).p, 1.0);
  // Draws that differ by less than 1e-6 are no ties: a few rows outweigh all others.
  EXPECT_DOUBLE_EQ(null_of_draws({0.9, 0.9 + 4e-7, 0.9 - 4e-7}, 0.9 + 2e-7).p, 0.5);
  EXPECT_TRUE(std::isnan(null_of_draws({}, 0.3).p));
  EXPECT_TRUE(std::isnan(null_of_draws({0.1}, std::nan("")).mean));
}

}  // namespace
}  // namespace vindex::statistics::cka_test
