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

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kRounding = 1e-6;
/// "vindex/p" and "vindex/b": permutations and bootstraps draw from streams of their own.
constexpr std::uint64_t kOrderKey = 0x702F'7865'646E'6976;
constexpr std::uint64_t kCountKey = 0x622F'7865'646E'6976;

/// Uniform below `bound`: the upper half of a product with 64 random bits, whose bias is 2^-64
/// bound.
std::int64_t below(std::int64_t bound, std::uint64_t key, std::int64_t index, std::int64_t draw) {
  const PhiloxBlock block =
      philox_block(key, static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(draw));
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
    return kNan;
  }
  return std::clamp(product / scale, -1.0, 1.0);
}

std::vector<std::int64_t> drawn_order(std::int64_t count, std::int64_t draw) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::int64_t left = count; left > 1; --left) {
    std::swap(order[static_cast<std::size_t>(left - 1)],
              order[static_cast<std::size_t>(below(left, kOrderKey, left, draw))]);
  }
  return order;
}

std::vector<std::int32_t> drawn_counts(std::int64_t count, std::int64_t draw) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(count), 0);
  for (std::int64_t take = 0; take < count; ++take) {
    ++counts[static_cast<std::size_t>(below(count, kCountKey, take, draw))];
  }
  return counts;
}

DrawnNull null_of_draws(std::vector<double> draws, double value) {
  std::erase_if(draws, [](double draw) { return std::isnan(draw); });
  if (draws.empty() || std::isnan(value)) {
    return {kNan, kNan, kNan};
  }
  const auto count = static_cast<double>(draws.size());
  const auto reached = static_cast<double>(std::count_if(
      draws.begin(), draws.end(), [&](double draw) { return draw >= value - kRounding; }));
  DrawnNull null;
  null.mean = std::accumulate(draws.begin(), draws.end(), 0.0) / count;
  null.p = (1.0 + reached) / (1.0 + count);
  null.q95 = quantile(std::move(draws), 0.95);
  return null;
}

DrawnInterval interval_of_draws(std::vector<double> draws) {
  DrawnInterval interval;
  interval.low = quantile(draws, 0.025);
  interval.high = quantile(std::move(draws), 0.975);
  return interval;
}

}  // namespace vindex::measure
