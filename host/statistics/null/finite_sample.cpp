// Owns the hypergeometric law and the band of ranks.
//
// Why not a bootstrap: at 16 values it is narrower than it says, and the exact law costs nothing.
#include "finite_sample.hpp"

#include "statistics/samples/quantile.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::statistics {

namespace {

constexpr double kBeyond = 0.025;  ///< chance at each end of an interval

std::vector<double> present(std::span<const double> values) {
  std::vector<double> out;
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [](double value) { return !std::isnan(value); });
  return out;
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0);
}

/// Chances that 0 .. n of the `low` lowest of `population` are among n drawn.
std::vector<double> hypergeometric(std::int64_t population, std::int64_t low, std::int64_t n) {
  std::vector<double> chances(static_cast<std::size_t>(n) + 1, 0.0);
  const auto all = static_cast<double>(population);
  const auto below = static_cast<double>(low);
  const auto drawn = static_cast<double>(n);
  const double ways = log_choose(all, drawn);
  for (std::int64_t k = std::max<std::int64_t>(0, n - (population - low)); k <= std::min(n, low);
       ++k) {
    const auto taken = static_cast<double>(k);
    chances[static_cast<std::size_t>(k)] =
        std::exp(log_choose(below, taken) + log_choose(all - below, drawn - taken) - ways);
  }
  return chances;
}

/// Root mean square distance of `estimate` from the place between `sorted` values that has
/// `chances` of having 0 .. n of them below. NaN where it is beyond them too often.
double place_error(const std::vector<double>& sorted, const std::vector<double>& chances,
                   double estimate) {
  const std::size_t n = sorted.size();
  if (n < 2 || chances.front() + chances.back() > kMostOutside) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double square = 0.0;
  for (std::size_t k = 0; k <= n; ++k) {
    const double low = k > 0 ? sorted[k - 1] : 2.0 * sorted[0] - sorted[1];
    const double high = k < n ? sorted[k] : 2.0 * sorted[n - 1] - sorted[n - 2];
    const double to_low = low - estimate;
    const double to_high = high - estimate;
    square += chances[k] * (to_low * to_low + to_low * to_high + to_high * to_high) / 3.0;
  }
  return std::sqrt(square);
}

/// The greatest value of the sample that at most kBeyond of all samples have above the population's
/// value number `rank`, from 1: at least as many as its own number are below. NaN: none.
double bound_below(const std::vector<double>& sorted, std::int64_t population, std::int64_t rank) {
  const std::vector<double> chances =
      hypergeometric(population, rank, static_cast<std::int64_t>(sorted.size()));
  double bound = std::numeric_limits<double>::quiet_NaN();
  double fewer = 0.0;
  for (std::size_t k = 1; k <= sorted.size(); ++k) {
    fewer += chances[k - 1];  // less than k of the sample are up to that value
    if (fewer > kBeyond) {
      break;
    }
    bound = sorted[k - 1];
  }
  return bound;
}

/// The mirror image: the least value below which that value is in at most kBeyond of all samples.
double bound_above(const std::vector<double>& sorted, std::int64_t population, std::int64_t rank) {
  std::vector<double> mirrored(sorted.rbegin(), sorted.rend());
  for (double& value : mirrored) {
    value = -value;
  }
  return -bound_below(mirrored, population, population + 1 - rank);
}

/// Walks over a population whose values are drawn or not, from the lowest. Where each rank alone is
/// undercut with a chance of `alone`: the chance that one of n is, and the least ranks.
struct RankWalk {
  double chance = 1.0;
  std::vector<std::int64_t> ranks;
};

RankWalk walk_ranks(std::int64_t n, std::int64_t population, double alone) {
  const auto drawn = static_cast<std::size_t>(n);
  std::vector<double> free(drawn + 1, 0.0);  // chances of 0 .. n drawn so far
  free[0] = 1.0;
  std::vector<double> held = free;  // and of no rank undercut
  RankWalk out;
  for (std::int64_t rank = 1; rank <= population; ++rank) {
    const auto left = static_cast<double>(population - rank + 1);
    for (std::size_t k = std::min<std::size_t>(drawn, static_cast<std::size_t>(rank)); k > 0; --k) {
      const double to_here = (static_cast<double>(n) - static_cast<double>(k - 1)) / left;
      const double stays =
          1.0 - std::min(1.0, (static_cast<double>(n) - static_cast<double>(k)) / left);
      free[k] = free[k] * stays + free[k - 1] * to_here;
      held[k] = held[k] * stays + held[k - 1] * to_here;
    }
    const double stays_none = 1.0 - std::min(1.0, static_cast<double>(n) / left);
    free[0] *= stays_none;
    held[0] *= stays_none;
    // So many drawn by this rank happen with a chance above `alone`; more undercut.
    double beyond = 0.0;
    std::size_t most = drawn;
    while (most > 0 && beyond + free[most] <= alone) {
      beyond += free[most];
      held[most] = 0.0;
      --most;
    }
    while (out.ranks.size() < most) {
      out.ranks.push_back(rank);
    }
  }
  out.chance = 1.0 - held[drawn];
  return out;
}

/// Kept: every metric of every layer asks for the same ones.
const std::vector<std::int64_t>& kept_least_ranks(std::int64_t n, std::int64_t population) {
  static std::mutex mutex;
  static std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::int64_t>> by_size;
  const std::lock_guard lock(mutex);
  std::vector<std::int64_t>& ranks = by_size[{n, population}];  // stable addresses
  if (ranks.empty()) {
    ranks = least_ranks(n, population);
  }
  return ranks;
}

/// The greatest mean that a population of values up to `most` has, of whose `sorted` sample each
/// value has at least so many at or below it; NaN for a `most` that is.
double greatest_mean(const std::vector<double>& sorted, const std::vector<std::int64_t>& ranks,
                     std::int64_t population, double most) {
  double sum = 0.0;
  std::int64_t below = 0;
  for (std::size_t k = 0; k < sorted.size(); ++k) {
    sum += static_cast<double>(ranks[k] - below) * sorted[k];
    below = ranks[k];
  }
  const auto all = static_cast<double>(population);
  return (sum + (all - static_cast<double>(below)) * std::max(most, sorted.back())) / all;
}

}  // namespace

std::vector<std::int64_t> least_ranks(std::int64_t n, std::int64_t population) {
  expects(n >= 1 && n < population, "least_ranks: a part of the population");
  // The chance of one rank alone, for which that of any is kBeyond: it rises with it in steps.
  double low = kBeyond / static_cast<double>(n);
  double high = kBeyond;
  RankWalk best = walk_ranks(n, population, low);
  for (int step = 0; step < 24; ++step) {
    const double middle = std::sqrt(low * high);
    RankWalk walk = walk_ranks(n, population, middle);
    if (walk.chance <= kBeyond) {
      low = middle;
      best = std::move(walk);
    } else {
      high = middle;
    }
  }
  return best.ranks;
}

Estimate estimate_mean(std::span<const double> values, std::int64_t untried,
                       const ValueRange& range) {
  expects(untried >= 0, "estimate_mean: as many or more in the population");
  std::vector<double> sorted = present(values);
  std::sort(sorted.begin(), sorted.end());
  Estimate out;
  if (sorted.empty()) {
    return out;
  }
  const auto n = static_cast<double>(sorted.size());
  double sum = 0.0;
  for (const double value : sorted) {
    sum += value;
  }
  out.value = sum / n;
  if (untried == 0) {
    out.error = 0.0;
    out.low = out.high = out.value;
    return out;
  }
  const auto count = static_cast<std::int64_t>(sorted.size());
  const std::int64_t population = count + untried;
  const std::vector<std::int64_t>& ranks = kept_least_ranks(count, population);
  if (!std::isnan(range.high)) {
    out.high = std::max(out.value, greatest_mean(sorted, ranks, population, range.high));
  }
  if (!std::isnan(range.low)) {
    std::vector<double> mirrored;
    std::transform(sorted.rbegin(), sorted.rend(), std::back_inserter(mirrored),
                   [](double value) { return -value; });
    out.low = std::min(out.value, -greatest_mean(mirrored, ranks, population, -range.low));
  }
  if (sorted.size() < 2) {
    return out;
  }
  double squares = 0.0;
  for (const double value : sorted) {
    squares += (value - out.value) * (value - out.value);
  }
  const double left = static_cast<double>(untried) / (n + static_cast<double>(untried));
  out.error = std::sqrt(squares / (n - 1.0) / n * left);
  return out;
}

Estimate estimate_quantile(std::span<const double> values, double q, std::int64_t untried) {
  expects(untried >= 0, "estimate_quantile: as many or more in the population");
  std::vector<double> sorted = present(values);
  std::sort(sorted.begin(), sorted.end());
  Estimate out;
  out.value = quantile(sorted, q);
  if (sorted.empty()) {
    return out;
  }
  if (untried == 0) {
    out.error = 0.0;
    out.low = out.high = out.value;
    return out;
  }
  const auto n = static_cast<std::int64_t>(sorted.size());
  const std::int64_t population = n + untried;
  // The quantile lies from the population's value number `rank` on, and up to the next one where
  // it is no value itself.
  const double position = q * static_cast<double>(population - 1);
  const auto below = static_cast<std::int64_t>(position);
  const std::int64_t rank = below + 1;
  const std::int64_t next = position > static_cast<double>(below) ? rank + 1 : rank;
  out.error = place_error(sorted, hypergeometric(population, rank, n), out.value);
  out.low = bound_below(sorted, population, rank);
  out.high = bound_above(sorted, population, next);
  return out;
}

DrawnGroup drawn_group(std::span<const DrawnMember> members) {
  DrawnGroup group;
  std::int64_t tried = 0;
  for (const DrawnMember& member : members) {
    group.total = std::max<std::int64_t>(group.total, member.draw_of);
    tried += member.is_tried ? 1 : 0;
  }
  if (!group.is_drawn()) {
    return {};
  }
  if (tried >= group.total) {
    group.tried = group.total;
    return group;
  }
  std::vector<bool> is_tried(members.size());
  for (const DrawnMember& member : members) {
    if (member.is_tried && member.draw >= 0 &&
        static_cast<std::size_t>(member.draw) < is_tried.size()) {
      is_tried[static_cast<std::size_t>(member.draw)] = true;
    }
  }
  group.tried = std::find(is_tried.begin(), is_tried.end(), false) - is_tried.begin();
  return group;
}

}  // namespace vindex::statistics
