#include "robust_scale.hpp"

#include "metrics.hpp"
#include "random_draws.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::measure {

namespace {

/// 1 / 0.6745: makes the median absolute deviation of a normal law its standard deviation.
constexpr double kOfMad = 1.4826;
/// sqrt(pi / 2), the same for the mean absolute deviation.
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
  constexpr std::int64_t kDraws = 2000;
  constexpr std::uint64_t kKey = 0x73636F726573;  // of these draws alone
  if (count < kFewest) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> largest;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t draw = 0; draw < kDraws; ++draw) {
    DrawStream stream(kKey, static_cast<std::uint64_t>(draw));
    std::generate(values.begin(), values.end(), [&] { return stream.normal(); });
    double most = 0.0;
    for (const double score : robust_scores(values)) {
      most = std::max(most, std::abs(score));
    }
    largest.push_back(most);
  }
  return quantile(largest, 0.95);
}

}  // namespace vindex::measure
