// Owns the hypergeometric law and Student's quantile for any freedom.
//
// Why not student_quantile() (cka.hpp): its series needs four degrees of freedom, and a sample of
// two has one. Why not a bootstrap: at 16 values it is narrower than it says, and the exact law
// costs nothing.
#include "finite_sample.hpp"

#include "metrics.hpp"
#include "sign_flip_null.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

namespace vindex::measure {

namespace {

constexpr double kBeyond = 0.025;  ///< chance at each end of an interval

std::vector<double> present(std::span<const double> values) {
  std::vector<double> out;
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [](double value) { return !std::isnan(value); });
  return out;
}

/// Both tails of Student's distribution beyond it are 5 %: by bisection, since it is rarely needed.
double student_critical(double freedom) {
  double low = 1.9;
  double high = 12.8;  // of one degree of freedom: 12.706
  for (int step = 0; step < 60; ++step) {
    const double middle = 0.5 * (low + high);
    (student_two_sided(middle, freedom) > 2.0 * kBeyond ? low : high) = middle;
  }
  return 0.5 * (low + high);
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

/// Standard deviation of the place between `sorted` values that has `chances` of having 0 .. n of
/// them below: the middle of its neighbours. NaN where it is beyond them too often.
double place_error(const std::vector<double>& sorted, const std::vector<double>& chances) {
  const std::size_t n = sorted.size();
  if (chances.front() + chances.back() > kMostOutside) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto place = [&](std::size_t below) {
    return 0.5 * (sorted[below == 0 ? 0 : below - 1] + sorted[std::min(below, n - 1)]);
  };
  double mean = 0.0;
  for (std::size_t k = 0; k <= n; ++k) {
    mean += chances[k] * place(k);
  }
  double variance = 0.0;
  for (std::size_t k = 0; k <= n; ++k) {
    variance += chances[k] * (place(k) - mean) * (place(k) - mean);
  }
  return std::sqrt(variance);
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

}  // namespace

Estimate estimate_mean(std::span<const double> values, std::int64_t untried) {
  expects(untried >= 0, "estimate_mean: as many or more in the population");
  const std::vector<double> known = present(values);
  Estimate out;
  if (known.empty()) {
    return out;
  }
  const auto n = static_cast<double>(known.size());
  double sum = 0.0;
  for (const double value : known) {
    sum += value;
  }
  out.value = sum / n;
  if (untried == 0) {
    out.error = 0.0;
    out.low = out.high = out.value;
    return out;
  }
  if (known.size() < 2) {
    return out;
  }
  double squares = 0.0;
  for (const double value : known) {
    squares += (value - out.value) * (value - out.value);
  }
  const double left = static_cast<double>(untried) / (n + static_cast<double>(untried));
  out.error = std::sqrt(squares / (n - 1.0) / n * left);
  const double reach = student_critical(n - 1.0) * out.error;
  out.low = out.value - reach;
  out.high = out.value + reach;
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
  out.error = place_error(sorted, hypergeometric(population, rank, n));
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

}  // namespace vindex::measure
