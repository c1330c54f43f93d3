// Owns the unbiased estimator in sums that need no n x n kernel. A, the U-centred K of cka.hpp, is
// K_ij + u_i + u_j off its diagonal, u_i = k_i / (n - 2) - tr K / (2 (n - 1)(n - 2)), and its rows
// sum to 0. So the u of the other side drop out of <A, B>:
//
//   <A, B> = sum over i != j of (K_ij + u_i + u_j) L_ij
//          = ||X^T Y||_F^2 - sum k_i l_i - 2 sum u_i l_i         as sum over j != i of L_ij = -l_i
//          = ||X^T Y||_F^2 - n / (n - 2) sum k_i l_i + tr K tr L / ((n - 1)(n - 2))
//
// Source: Song et al. 2012 for the estimator; the sums are its form for linear kernels of centred
// columns.
//
// Why the unbiased one first: for f columns of noise on both sides the biased one is f / (n + f +
// 1), near 1 where features outnumber rows. Why permutations for its null: rows of text depend on
// each other, and no formula for independent rows holds.
#include "cka.hpp"

#include "core/constants.hpp"
#include "core/philox.hpp"
#include "statistics/samples/quantile.hpp"
#include "statistics/samples/student.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace vindex::statistics {

namespace {

/// What counts as equal: this share of the draws' deviation, between two bounds.
constexpr double kEqualShare = 0.01;
constexpr double kLeastRounding = 1e-9;
constexpr double kMostRounding = 1e-6;
/// "vindex/p"
constexpr std::uint64_t kOrderKey = 0x702F'7865'646E'6976;

/// Uniform below `bound`: the upper half of a product with 64 random bits, whose bias is 2^-64
/// bound.
std::int64_t below(std::int64_t bound, std::int64_t index, std::int64_t draw) {
  const PhiloxBlock block =
      philox_block(kOrderKey, static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(draw));
  const std::uint64_t bits = static_cast<std::uint64_t>(block.word[1]) << 32U | block.word[0];
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>((static_cast<Wide>(bits) * static_cast<Wide>(bound)) >> 64U);
}

}  // namespace

double u_centred_product(const KernelSums& sums, double squared_cross_norm) {
  const auto n = static_cast<double>(sums.rows);
  return squared_cross_norm - n / (n - 2.0) * sums.diagonal +
         sums.trace_left * sums.trace_right / ((n - 1.0) * (n - 2.0));
}

double squared_cross_norm(const KernelSums& sums, double u_centred_product) {
  const auto n = static_cast<double>(sums.rows);
  return u_centred_product + n / (n - 2.0) * sums.diagonal -
         sums.trace_left * sums.trace_right / ((n - 1.0) * (n - 2.0));
}

double u_centring_term(std::int64_t rows, double row_norm, double trace) {
  const auto n = static_cast<double>(rows);
  return row_norm / (n - 2.0) - trace / (2.0 * (n - 1.0) * (n - 2.0));
}

double alignment(double product, double left, double right) {
  const double scale = std::sqrt(left) * std::sqrt(right);
  if (!(left > 0.0) || !(right > 0.0) || !std::isfinite(scale) || std::isnan(product)) {
    return kNaN;
  }
  return std::clamp(product / scale, -1.0, 1.0);
}

double log_orders(const Strata& strata) {
  double sum = 0.0;
  for (const std::vector<std::int64_t>& members : strata) {
    sum += std::lgamma(static_cast<double>(members.size()) + 1.0);
  }
  return sum;
}

std::vector<std::int64_t> drawn_order(std::int64_t count, const Strata& strata, std::int64_t draw) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::int64_t before = 0;  // members of earlier strata: every exchange has a number of its own
  for (const std::vector<std::int64_t>& members : strata) {
    const auto size = static_cast<std::int64_t>(members.size());
    const auto at = [&](std::int64_t member) -> std::int64_t& {
      return order[static_cast<std::size_t>(members[static_cast<std::size_t>(member)])];
    };
    for (std::int64_t left = size; left > 1; --left) {
      std::swap(at(left - 1), at(below(left, before + left, draw)));
    }
    before += size;
  }
  return order;
}

PermutationNull null_of_draws(std::vector<double> draws, double value) {
  std::erase_if(draws, [](double draw) { return std::isnan(draw); });
  if (draws.empty() || std::isnan(value)) {
    return {kNaN, kNaN, kNaN};
  }
  const auto count = static_cast<double>(draws.size());
  PermutationNull null;
  null.mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  const double squares = std::accumulate(
      draws.begin(), draws.end(), 0.0,
      [&](double sum, double draw) { return sum + (draw - null.mean) * (draw - null.mean); });
  const double rounding =
      std::clamp(kEqualShare * std::sqrt(squares / count), kLeastRounding, kMostRounding);
  const auto reached = static_cast<double>(std::count_if(
      draws.begin(), draws.end(), [&](double draw) { return draw >= value - rounding; }));
  null.p = (1.0 + reached) / (1.0 + count);
  null.q95 = quantile(std::move(draws), 0.95);
  return null;
}

// The arithmetic of the jackknife of cka.hpp, whose head has the formulas and their sources. The
// interval's ends are found by halving, since the bound on the right of the inequality depends on
// the value asked about.
//
// Student's quantile is Cornish and Fisher's series (Abramowitz and Stegun 26.7.5) and not an
// inverse of the beta function: with four degrees of freedom and more it is good to 1e-3, and the
// freedom itself is an estimate from a kurtosis. varying_directions() is tr(C)^2 / tr(C^2) with n
// tr C and n (n - 3) tr(C^2) in place of the traces: what the kernel's trace and the squared norm
// of the U-centred kernel are on average.
//
// Why a jackknife and not a bootstrap: without a group the sums of both estimators are differences
// of sums that are there anyway, where each draw of a bootstrap costs n^2
// (docs/decisions/trace-and-activations.md).

namespace {

/// What rounding leaves of the difference of a CKA from 1: closer ones are the same.
constexpr double kNearOne = 1e-7;

double atanh_of(double value) {
  return std::atanh(std::clamp(value, kNearOne - 1.0, 1.0 - kNearOne));
}

struct Spread {
  double error = 0.0;    ///< the jackknife's
  double freedom = 4.0;  ///< degrees of freedom of it
};

Spread group_spread(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double second = 0.0;
  double fourth = 0.0;
  for (const double value : values) {
    const double square = (value - mean) * (value - mean);
    second += square;
    fourth += square * square;
  }
  Spread spread;
  spread.error = std::sqrt((count - 1.0) / count * second);
  const double kurtosis = second > 0.0 ? count * fourth / (second * second) : 3.0;
  spread.freedom =
      kurtosis > 1.0 ? std::clamp(2.0 * count / (kurtosis - 1.0), 4.0, count - 1.0) : count - 1.0;
  return spread;
}

/// Where `excess`, negative at `inside` and positive at `outside`, changes sign.
template <typename Excess>
double crossing(double inside, double outside, const Excess& excess) {
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (inside + outside);
    (excess(middle) > 0.0 ? outside : inside) = middle;
  }
  return outside;
}

}  // namespace

double varying_directions(std::int64_t rows, double trace, double u_centred) {
  const auto n = static_cast<double>(rows);
  return std::max(1.0, trace * trace * (n - 3.0) / (n * u_centred));
}

JackknifeError jackknife_error(double value, std::span<const double> without, double directions) {
  if (std::isnan(value) || without.size() < static_cast<std::size_t>(kMinGroups) ||
      std::any_of(without.begin(), without.end(), [](double one) { return std::isnan(one); })) {
    return {kNaN, kNaN, kNaN};
  }
  JackknifeError out;
  out.error = group_spread(without).error;
  std::vector<double> turned(without.size());
  std::transform(without.begin(), without.end(), turned.begin(), atanh_of);
  const Spread of_turned = group_spread(turned);
  const double spread = student_quantile(of_turned.freedom) * of_turned.error;
  const double at_zero = 0.5 * std::max(directions, 1.0) * out.error;
  const double own = std::max(value, 0.0) + at_zero;
  if (!(spread > 0.0) || !(own > 0.0)) {
    out.low = out.high = value;
    return out;
  }
  const auto excess = [&](double other) {
    return std::abs(atanh_of(other) - atanh_of(value)) -
           spread * std::sqrt((std::max(other, 0.0) + at_zero) / own);
  };
  out.low = excess(-1.0) > 0.0 ? crossing(value, -1.0, excess) : -1.0;
  out.high = excess(1.0) > 0.0 ? crossing(value, 1.0, excess) : 1.0;
  return out;
}

}  // namespace vindex::statistics
