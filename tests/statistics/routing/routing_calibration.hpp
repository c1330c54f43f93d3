// Owns how well nulls of routing describe routers that prefer no expert: many layers of independent
// normal logits, each number beside its null as a file has them.
#pragma once

#include "architecture/router_rule.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::statistics::testing {

struct RoutingCase {
  std::string name;
  RouterRule rule;
  std::int64_t experts = 8, tokens = 100;
  double logit_mean = 0.0, logit_sd = 1.0;
};

/// A statistic over repeated layers; z is (value - null) / null_sd.
struct CalibratedStatistic {
  std::string name;
  double z_mean = 0.0, z_sd = 0.0;
  double beyond = 0.0;  ///< share of abs(z) > 3, or of p < 0.0027
  double at_05 = 0.0;   ///< share of p <= 0.05; 0 of a z
  double mean_p = 0.0;  ///< 0 of a z
  double count = 0.0;   ///< numbers that were compared
};

/// Of `repeats` pairs of layers. Deterministic.
std::vector<CalibratedStatistic> calibrate(const RoutingCase& routing, int repeats);

/// What the docs' table holds.
std::vector<RoutingCase> documented_cases();

}  // namespace vindex::statistics::testing
