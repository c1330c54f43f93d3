// Owns what routing statistics are where no expert is preferred: every choice that the rule allows
// is equally likely given logits that are independent normals of a layer's own mean and deviation.
// Definitions: docs/commands/routing.md. Deterministic: Philox, keyed by what is asked for.
#pragma once

#include "choice_law.hpp"
#include "lift_maxima.hpp"

#include "architecture/router_rule.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::statistics {

/// A router without knowledge: its logits are independent normals.
struct NoiseRouter {
  ChoiceLaw choice;  ///< without patterns where a deviation that is no number left it unknown
  /// Mean over as many tokens of the entropy of scores; median of margins. Deviations are those of
  /// a layer that is compared by its own mean and deviation, which follow its tokens, and hold the
  /// error of the drawn tokens.
  DrawnNull entropy, margin;
};

inline constexpr std::int64_t kNoiseTokens = 16384;
/// Of kNoiseTokens drawn tokens, without bias; for layers of `tokens` tokens. Errors: as
/// TokenRouter.
NoiseRouter noise_router(const RouterRule& rule, std::int64_t experts, double mean,
                         double deviation, std::int64_t tokens);

struct UniformRoutingNulls {
  double load = 0.0;                           ///< 1/E, exact
  double load_deviation = 0.0;                 ///< of one expert's load, exact
  DrawnNull cv, entropy, gini, max_over_mean;  ///< kRoutingDraws draws of all loads
  DrawnNull dead_experts;                      ///< mean exact, deviation of the draws
  /// Of a coactivation_lift (mean q/p^2, deviation to first order in 1/tokens): of experts of
  /// different groups where the rule has groups.
  double coactivation = 0.0, coactivation_deviation = 0.0;
  /// Of experts of one group; NaN without groups.
  double same_group = std::numeric_limits<double>::quiet_NaN();
  double same_group_deviation = std::numeric_limits<double>::quiet_NaN();
  MaximumNull coactivation_max;
  /// What coactivation_lift of these two experts is on average.
  double lift(std::size_t expert, std::size_t other, std::int64_t group_size) const;
};

/// Of `tokens` tokens; all NaN for a law without patterns.
UniformRoutingNulls uniform_routing_nulls(const ChoiceLaw& law, std::int64_t tokens);

/// Deviation of a transition_lift of `tokens` tokens between layers that choose these shares of
/// their experts; its mean is 1.
double transition_deviation(std::int64_t tokens, double share_from, double share_to);

}  // namespace vindex::statistics
