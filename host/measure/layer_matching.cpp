#include <vindex/measure/layer_matching.hpp>
#include <vindex/measure/metrics.hpp>

#include <cmath>

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

std::optional<Stages> count_stages(const std::vector<double>& adjacent) {
  std::vector<double> values;
  for (const double value : adjacent) {
    if (!std::isnan(value)) {
      values.push_back(value);
    }
  }
  if (values.empty()) {
    return std::nullopt;
  }
  Stages stages;
  stages.median = quantile(values, 0.5);
  std::vector<double> deviations;
  for (const double value : values) {
    deviations.push_back(std::abs(value - stages.median));
  }
  stages.mad = quantile(deviations, 0.5);
  // 1.4826 makes the MAD of a normal distribution its standard deviation.
  stages.threshold = stages.median - 3.0 * 1.4826 * stages.mad;
  if (stages.mad > 0.0) {
    for (const double value : values) {
      stages.count += value < stages.threshold ? 1 : 0;
    }
  }
  return stages;
}

}  // namespace vindex::measure
