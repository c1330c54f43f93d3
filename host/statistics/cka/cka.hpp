// Owns linear centred kernel alignment of two sets of activations over the same n rows as
// arithmetic on sums: the unbiased and the biased estimator, and the draws of its null.
//
// X [n, d], Y [n, e], columns centred; K = X X^T, L = Y Y^T; k_i = K_ii, l_i = L_ii.
// Biased:   ||X^T Y||_F^2 / (||X^T X||_F ||Y^T Y||_F)           (Kornblith et al. 2019)
// Unbiased: <A, B> / (||A||_F ||B||_F), A and B the U-centred K and L, whose diagonals are 0:
//   A_ij = K_ij + (k_i + k_j) / (n - 2) - sum k / ((n - 1) (n - 2)),  i != j
// <A, B> = n (n - 3) HSIC_1 of Song et al. 2012 (equation 5), whose alignment Nguyen, Raghu and
// Kornblith 2021 use; that it is an inner product is Szekely and Rizzo 2014. Adding a constant row
// to X leaves A as it is.
//
// Also owns what a delete-one-group jackknife says of a CKA: its standard error and an interval.
//
// With t the estimate, t_(-g) the estimate without group g and G groups (Quenouille, Tukey;
// Efron and Stein 1981):
//   error^2 = (G - 1) / G sum_g (t_(-g) - mean)^2
// The interval is taken for z = atanh t, whose spread near 1 does not depend on t. Towards 0 the
// spread does: where one direction dominates, t is a squared correlation, whose variance is
// proportional to itself but for what it is at 0, and samples with a small t are those with a small
// error too. So, as in Wilson's interval of a share, the variance is that of the value asked about:
//   (z(x) - z(t))^2 <= q^2 error_z^2 (x+ + c) / (t+ + c),    x+ = max(x, 0),
// q Student's quantile; a sum of squares of kurtosis k has 2 G / (k - 1) degrees of freedom
// (Satterthwaite 1946), which G - 1 bounds. c is what the variance at 0 is worth: of d
// independent directions it is d^2 times and the rest d times that of one, c = d / (2 G), while the
// jackknife's error at 0 is 2 / G (it doubles a variance of the second order): c = d error / 4, and
// d error / 2 is taken, which is less wide. docs/commands/cka.md has the coverage.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Rows below which the unbiased estimator does not exist.
inline constexpr std::int64_t kMinCkaRows = 4;

/// What both estimators need of two centred sets over the same rows.
struct KernelSums {
  std::int64_t rows = 0;
  double trace_left = 0.0;   ///< sum k_i
  double trace_right = 0.0;  ///< sum l_i
  double diagonal = 0.0;     ///< sum k_i l_i
};

/// <A, B> from ||X^T Y||_F^2, and back.
double u_centred_product(const KernelSums& sums, double squared_cross_norm);
double squared_cross_norm(const KernelSums& sums, double u_centred_product);

/// What is added to K_ij for row i (and once more for row j) to U-centre it.
double u_centring_term(std::int64_t rows, double row_norm, double trace);

/// product / sqrt(left right), within [-1, 1] (beyond it lies rounding alone); NaN where a side has
/// no kernel: `left` or `right` not positive or not finite.
double alignment(double product, double left, double right);

/// Things that may change places: numbers of the members of each stratum, ascending.
using Strata = std::vector<std::vector<std::int64_t>>;

/// Natural logarithm of the number of orders that keep every thing within its stratum.
double log_orders(const Strata& strata);

/// Orders below which a null of permutations says nothing: with fewer, p cannot reach 0.05.
inline constexpr double kMinOrders = 20.0;

/// Which of `count` things stands at each place in draw `draw`: those of a stratum in a random
/// order on the places of that stratum (Fisher and Yates with Philox numbers of a fixed key, the
/// same in every run), a thing of no stratum where it was.
std::vector<std::int64_t> drawn_order(std::int64_t count, const Strata& strata, std::int64_t draw);

/// Null of `value` from its draws: mean, 95 % quantile, and (1 + draws of at least the value) /
/// (1 + draws), where what lies below it by rounding counts as equal: by a hundredth of the draws'
/// deviation, 1e-9 at least and 1e-6 at most. Where a few rows outweigh all others (first tokens of
/// 300 deviations) draws differ by 1e-6 themselves. NaN without draws or where `value` is.
struct PermutationNull {
  double mean = 0.0;
  double q95 = 0.0;
  double p = 0.0;
};
PermutationNull null_of_draws(std::vector<double> draws, double value);

/// Groups below which there is no error: its own would be as large.
inline constexpr std::int64_t kMinGroups = 5;

/// NaN where the value or one of the others is, and below kMinGroups.
struct JackknifeError {
  double error = 0.0;  ///< standard error of the value
  double low = 0.0;    ///< 95 % interval, which holds the value and lies within [-1, 1]
  double high = 0.0;
};

/// Of `value` in [-1, 1] and the values `without` each group in turn; `directions` >= 1: d above.
JackknifeError jackknife_error(double value, std::span<const double> without, double directions);

/// How many directions a layer varies in: tr(C)^2 / tr(C^2) of its covariance C, without bias, from
/// the trace of its kernel and the squared norm of the U-centred one (statistics/cka/cka.hpp); at
/// least 1.
double varying_directions(std::int64_t rows, double trace, double u_centred);

}  // namespace vindex::statistics
