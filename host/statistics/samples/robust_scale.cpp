// Owns the median of absolute deviations with its substitute where it is 0, the scores made of it,
// and the 95 % point of the largest score by draws.
#include "robust_scale.hpp"

#include "quantile.hpp"
#include "random_draws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace vindex::statistics {

namespace {

/// sqrt(pi / 2), as kOfMad for the mean absolute deviation.
constexpr double kOfMeanDeviation = 1.2533;

}  // namespace

double robust_scale(const std::vector<double>& values, double median) {
  std::vector<double> deviations;
  double sum = 0.0;
  for (const double value : values) {
    deviations.push_back(std::abs(value - median));
    sum += deviations.back();
  }
  const double mad = quantile(deviations, 0.5);
  return mad > 0.0 ? kOfMad * mad
                   : kOfMeanDeviation * sum /
                         static_cast<double>(std::max<std::size_t>(deviations.size(), 1));
}

std::vector<double> robust_scores(const std::vector<double>& values) {
  const double median = quantile(values, 0.5);
  const double scale = robust_scale(values, median);
  std::vector<double> scores;
  for (const double value : values) {
    scores.push_back(scale > 0.0 ? (value - median) / scale : 0.0);
  }
  return scores;
}

double largest_score_q95(std::int64_t count) {
  constexpr std::int64_t kFewest = 3;
  constexpr std::uint64_t kScoreKey = 0x73636F726573;  // of these draws alone
  if (count < kFewest) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const std::int64_t draws = std::clamp<std::int64_t>((1 << 21) / count, 4000, 20000);
  std::vector<double> largest;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    DrawStream stream(kScoreKey, static_cast<std::uint64_t>(draw));
    std::generate(values.begin(), values.end(), [&] { return stream.normal(); });
    double most = 0.0;
    for (const double score : robust_scores(values)) {
      most = std::max(most, std::abs(score));
    }
    largest.push_back(most);
  }
  return quantile(largest, 0.95);
}

namespace {

/// The farthest row's score of one draw.
double drawn_nearest(std::size_t count, DrawStream stream) {
  std::vector<double> pairs;
  std::vector<double> nearest(count, -std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double value = stream.normal();
      pairs.push_back(value);
      nearest[i] = std::max(nearest[i], value);
      nearest[j] = std::max(nearest[j], value);
    }
  }
  const double median = quantile(nearest, 0.5);
  double most = 0.0;
  for (const double value : nearest) {
    most = std::max(most, std::abs(value - median));
  }
  return most / robust_scale(pairs, quantile(pairs, 0.5));
}

/// The same for many rows: the largest of all pairs less the median over rows of independent ones,
/// in units of a scale as exact as so many pairs make it.
double nearest_by_law(double rows, DrawStream stream) {
  const double pairs = 0.5 * rows * (rows - 1.0);
  // Above the median of a row's largest is each of its numbers with a chance of beyond.
  const double beyond = -std::expm1(std::log(0.5) / (rows - 1.0));
  const double median = -normal_quantile(beyond);
  const double density = (rows - 1.0) * 0.5 / (1.0 - beyond) * std::exp(-0.5 * median * median) /
                         std::sqrt(2.0 * std::numbers::pi);
  const double median_error = 0.5 / density / std::sqrt(rows);
  constexpr double kMadError = 1.1664;  // of a MAD over its size, times the root of the values
  const double largest = -normal_quantile(-std::expm1(std::log(stream.uniform()) / pairs));
  return (largest - median - median_error * stream.normal()) /
         std::exp(kMadError / std::sqrt(pairs) * stream.normal());
}

}  // namespace

double largest_nearest_q95(std::int64_t count) {
  constexpr std::int64_t kFewestRows = 3;
  constexpr std::int64_t kMostDrawn = 32;
  constexpr std::uint64_t kNearestKey = 0x6E656172657374;
  if (count < kFewestRows) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const bool is_drawn = count <= kMostDrawn;
  const std::int64_t draws =
      is_drawn ? std::clamp<std::int64_t>((1 << 22) / (count * count), 4000, 20000) : 20000;
  std::vector<double> farthest;
  for (std::int64_t draw = 0; draw < draws; ++draw) {
    const DrawStream stream(kNearestKey, static_cast<std::uint64_t>(draw));
    farthest.push_back(is_drawn ? drawn_nearest(static_cast<std::size_t>(count), stream)
                                : nearest_by_law(static_cast<double>(count), stream));
  }
  return quantile(farthest, 0.95);
}

}  // namespace vindex::statistics
