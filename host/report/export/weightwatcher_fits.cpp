// Owns the fits: power law over all candidates, bulk of the density, determinant.
#include "weightwatcher_fits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace vindex::report {

namespace {

/// One candidate of the small-sample fit: `tail` ascending, from its x_min.
SmallPowerLaw candidate(std::span<const double> tail) {
  const auto m = static_cast<double>(tail.size());
  double logs = 0.0;
  for (const double value : tail) {
    logs += std::log(value);
  }
  logs -= m * std::log(tail.front());
  if (!(logs > 1e-12)) {
    return {};
  }
  SmallPowerLaw fit = {1.0 + (m - 1.0) / logs, tail.front(), 0.0, m};
  for (std::size_t j = 0; j < tail.size(); ++j) {
    const double theory = 1.0 - std::pow(tail[j] / tail.front(), 1.0 - fit.alpha);
    fit.ks = std::max(fit.ks, std::abs(static_cast<double>(j) / m - theory));
  }
  return fit;
}

/// The density that the law is fitted to, at the points where it counts.
struct Density {
  std::vector<double> x, y;
  double peak = 0.0;  ///< the first x of the greatest y
};

/// Linear-kernel density of `ascending` on 1000 points from 0 to its maximum + 0.5.
Density density_of(std::span<const double> ascending) {
  constexpr std::size_t kPoints = 1000;
  constexpr double kBandwidth = 0.1;
  constexpr double kMin = 0.01;
  const std::size_t n = ascending.size();
  std::vector<double> sums(n + 1, 0.0);
  std::partial_sum(ascending.begin(), ascending.end(), sums.begin() + 1);
  const auto between = [&](double low, double high) {
    const auto first = std::upper_bound(ascending.begin(), ascending.end(), low);
    const auto last = std::lower_bound(ascending.begin(), ascending.end(), high);
    const auto i = static_cast<std::size_t>(first - ascending.begin());
    const auto j = static_cast<std::size_t>(std::max(first, last) - ascending.begin());
    return std::pair(static_cast<double>(j - i), sums[j] - sums[i]);
  };
  const double top = ascending.back() + 0.5;
  Density density;
  double greatest = 0.0;
  for (std::size_t i = 0; i < kPoints; ++i) {
    const double x = top * static_cast<double>(i) / (kPoints - 1);
    // sum of 1 - |x - value| / h over the values within h: those below x, then those from it up.
    const auto [below, below_sum] = between(x - kBandwidth, x);
    const auto [all, all_sum] = between(x - kBandwidth, x + kBandwidth);
    const double distance = (x * below - below_sum) + ((all_sum - below_sum) - x * (all - below));
    const double y = (all - distance / kBandwidth) / (kBandwidth * static_cast<double>(n));
    if (y > kMin) {
      density.x.push_back(x);
      density.y.push_back(y);
      if (y > greatest) {
        greatest = y;
        density.peak = x;
      }
    }
  }
  return density;
}

/// Sum of squared differences between `density` and the law of noise scale `sigma`; Q = longer /
/// shorter.
double misfit(const Density& density, double q, double sigma) {
  constexpr double kOutside = 1000.0;  // per point, where the law does not even cover the peak
  const double root = std::sqrt(1.0 / q);
  const double low = sigma * sigma * (1.0 - root) * (1.0 - root);
  const double high = sigma * sigma * (1.0 + root) * (1.0 + root);
  const bool square = q == 1.0;
  if (!square && (high < density.peak || high > density.x.back() || low > density.peak)) {
    return kOutside * kOutside * static_cast<double>(density.x.size());
  }
  double sum = 0.0;
  for (std::size_t i = 0; i < density.x.size(); ++i) {
    const double x = density.x[i];
    const double under = square ? 4.0 - x * x : (high - x) * (x - low);
    double law = 0.0;
    if (under > 0.0) {
      law = std::sqrt(under) / (square ? std::numbers::pi * sigma * sigma
                                       : 2.0 * std::numbers::pi * sigma * sigma * x / q);
    }
    sum += (law - density.y[i]) * (law - density.y[i]);
  }
  return sum;
}

/// Nelder and Mead in one dimension from `start`, with scipy's first step, coefficients and
/// tolerances.
template <typename F>
double polish(const F& f, double start) {
  constexpr double kTolerance = 1e-4;
  constexpr int kMax = 200;
  struct Vertex {
    double x, f;
  };
  std::array<Vertex, 2> simplex = {{{start, f(start)}, {start * 1.05, f(start * 1.05)}}};
  const auto order = [&] {
    if (simplex[1].f < simplex[0].f) {
      std::swap(simplex[0], simplex[1]);
    }
  };
  order();
  auto& [best, worst] = simplex;
  for (int calls = 2; calls < kMax;) {
    if (std::abs(worst.x - best.x) <= kTolerance && std::abs(worst.f - best.f) <= kTolerance) {
      break;
    }
    const auto at = [&](double x) {
      ++calls;
      return Vertex{x, f(x)};
    };
    const Vertex reflected = at(2.0 * best.x - worst.x);
    if (reflected.f < best.f) {
      const Vertex expanded = at(3.0 * best.x - 2.0 * worst.x);
      worst = expanded.f < reflected.f ? expanded : reflected;
    } else {
      const bool outside = reflected.f < worst.f;
      const Vertex contracted =
          at(outside ? 1.5 * best.x - 0.5 * worst.x : 0.5 * best.x + 0.5 * worst.x);
      const bool better = outside ? contracted.f <= reflected.f : contracted.f < worst.f;
      worst = better ? contracted : at(best.x + 0.5 * (worst.x - best.x));
    }
    order();
  }
  return best.x;
}

double scale_to_mean_one(std::span<const double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum > 0.0 ? std::sqrt(static_cast<double>(values.size())) / std::sqrt(sum) : kAbsent;
}

}  // namespace

SmallPowerLaw fit_small_power_law(std::span<const double> ascending) {
  constexpr std::size_t kMinTail = 8;
  if (ascending.size() < 2) {
    return {};
  }
  if (ascending.size() < kMinTail) {
    return candidate(ascending);
  }
  SmallPowerLaw best;
  for (std::size_t i = 0; i + kMinTail <= ascending.size(); ++i) {
    const SmallPowerLaw fit = candidate(ascending.subspan(i));
    if (fit.ks < best.ks || std::isnan(best.ks)) {
      best = fit;
    }
  }
  return best;
}

BulkFit fit_bulk(std::span<const double> ascending, std::int64_t longer) {
  BulkFit fit;
  if (ascending.empty() || !(ascending.back() > 0.0)) {
    return fit;
  }
  const auto p = static_cast<double>(ascending.size());
  const double q = static_cast<double>(longer) / p;
  fit.scale = scale_to_mean_one(ascending);
  std::vector<double> scaled(ascending.begin(), ascending.end());
  for (double& value : scaled) {
    value *= fit.scale * fit.scale;
  }
  const double top = scaled.back();
  const double edge = 1.0 + 1.0 / std::sqrt(q);
  std::vector<double> fitted = scaled;
  if (q == 1.0) {
    std::transform(scaled.begin(), scaled.end(), fitted.begin(),
                   [](double value) { return std::sqrt(value); });
  }
  const Density density = density_of(fitted);
  if (density.x.empty()) {
    return {};
  }
  const auto f = [&](double sigma) { return misfit(density, q, sigma); };
  const double unit = std::sqrt(top / (edge * edge));
  const double first = 0.05 * unit;
  const double step = 0.01 * unit;
  const auto steps = static_cast<int>(std::ceil((2.0 * unit - first) / step));
  double start = first;
  double least = f(first);
  for (int i = 1; i < steps; ++i) {
    const double sigma = first + i * step;
    if (const double value = f(sigma); value < least) {
      least = value;
      start = sigma;
    }
  }
  fit.sigma = polish(f, start);
  const double bulk_max = std::pow(fit.sigma * edge, 2.0);
  const double tracy_widom =
      1.0 / std::sqrt(q) * std::pow(bulk_max, 2.0 / 3.0) * std::pow(p, -2.0 / 3.0);
  const double threshold = bulk_max + std::sqrt(tracy_widom);
  fit.spikes = static_cast<double>(std::count_if(
      scaled.begin(), scaled.end(), [threshold](double value) { return value > threshold; }));
  fit.softrank = bulk_max / top;
  const double unscale = 1.0 / (fit.scale * fit.scale);
  fit.bulk_max = bulk_max * unscale;
  fit.bulk_min = std::pow(fit.sigma * (1.0 - 1.0 / std::sqrt(q)), 2.0) * unscale;
  return fit;
}

DeterminantFit fit_determinant(std::span<const double> ascending) {
  const double scale = ascending.empty() ? kAbsent : scale_to_mean_one(ascending);
  if (ascending.size() < 2 || !(ascending.front() < ascending.back())) {
    return {};
  }
  std::size_t index = ascending.size();
  double logs = 0.0;
  bool crossed = false;
  while (index > 1 && !crossed) {
    --index;
    logs += std::log(ascending[index] * scale * scale);
    crossed = logs < 0.0;
  }
  const std::size_t count = crossed ? ascending.size() - index : ascending.size();
  return {static_cast<double>(count), ascending[index], ascending[index] * scale * scale};
}

}  // namespace vindex::report
