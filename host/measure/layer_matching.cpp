// Owns matching by relative depth and the count of stages. Both are rules and no estimates: depths
// in twentieths, by integers so that halves round the same everywhere; breaks by median and median
// absolute deviation, whose 1.4826 makes it the standard deviation of normal scatter (Iglewicz and
// Hoaglin 1993).
//
// Why the MAD and not a standard deviation: a break is an outlier, and would widen the deviation
// that is to find it; the MAD it widens little, and the second round, without the breaks found,
// undoes that.
#include <vindex/measure/layer_matching.hpp>
#include <vindex/measure/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::measure {

std::vector<DepthMatch> match_depths(std::size_t layers_a, std::size_t layers_b) {
  constexpr std::size_t kSteps = 20;  // integers, so that halves are exact
  std::vector<DepthMatch> matches;
  if (layers_a == 0 || layers_b == 0) {
    return matches;
  }
  const auto position = [](std::size_t step, std::size_t layers) {
    return (2 * step * (layers - 1) + kSteps) / (2 * kSteps);
  };
  for (std::size_t step = 0; step <= kSteps; ++step) {
    matches.push_back({static_cast<double>(step) / static_cast<double>(kSteps),
                       position(step, layers_a), position(step, layers_b)});
  }
  return matches;
}

std::optional<Stages> count_stages(const std::vector<Adjacent>& adjacent) {
  const bool is_known = std::none_of(adjacent.begin(), adjacent.end(), [](const Adjacent& one) {
    return std::isnan(one.value) || std::isnan(one.error);
  });
  if (adjacent.empty() || !is_known) {
    return std::nullopt;
  }
  // 1.4826 makes the MAD of a normal distribution its standard deviation.
  constexpr double kDeviations = 3.0;
  constexpr double kScale = 1.4826;
  Stages stages;
  std::vector<double> values;
  for (const Adjacent& one : adjacent) {
    values.push_back(one.value);
  }
  stages.median = quantile(values, 0.5);
  const auto take_mad = [&] {
    std::vector<double> deviations;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!std::binary_search(stages.breaks.begin(), stages.breaks.end(), i)) {
        deviations.push_back(std::abs(values[i] - stages.median));
      }
    }
    stages.mad = quantile(std::move(deviations), 0.5);
    stages.threshold = stages.median - kDeviations * kScale * stages.mad;
    stages.breaks.clear();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double own = stages.median - kDeviations * adjacent[i].error;
      if (values[i] < std::min(stages.threshold, own)) {
        stages.breaks.push_back(i);
      }
    }
  };
  take_mad();
  if (!stages.breaks.empty()) {
    take_mad();
  }
  stages.count = 1 + static_cast<std::int64_t>(stages.breaks.size());
  return stages;
}

}  // namespace vindex::measure
