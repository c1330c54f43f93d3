// Owns what tests of the nulls of routing draw with: a choice without preference, and the mean and
// deviation of what was drawn.
#pragma once
#include "statistics/routing/choice_law.hpp"
#include "statistics/routing/routing_nulls.hpp"
#include "statistics/routing/uniform_choice.hpp"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace vindex::statistics::testing {

inline ChoiceLaw law_of(const RouterRule& rule, std::int64_t experts, double sd = 1.0) {
  return noise_router(rule, experts, 0.0, sd, 100).choice;
}

struct Summary {
  double mean = 0.0, deviation = 0.0;
};

inline Summary summary(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Summary out;
  out.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  for (const double value : values) {
    out.deviation += (value - out.mean) * (value - out.mean) / (count - 1.0);
  }
  out.deviation = std::sqrt(out.deviation);
  return out;
}

}  // namespace vindex::statistics::testing
