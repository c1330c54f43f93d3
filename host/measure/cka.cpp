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
#include <vindex/core/constants.hpp>
#include <vindex/core/error.hpp>
#include <vindex/core/philox.hpp>
#include <vindex/measure/cka.hpp>
#include <vindex/measure/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace vindex::measure {

namespace {

constexpr double kCkaRounding = 1e-6;
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
  const auto reached = static_cast<double>(std::count_if(
      draws.begin(), draws.end(), [&](double draw) { return draw >= value - kCkaRounding; }));
  PermutationNull null;
  null.mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  null.p = (1.0 + reached) / (1.0 + count);
  null.q95 = quantile(std::move(draws), 0.95);
  return null;
}

}  // namespace vindex::measure
