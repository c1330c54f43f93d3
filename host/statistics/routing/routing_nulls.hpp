// Owns what routing statistics are where no expert is preferred: every choice that the rule allows
// is equally likely given logits that are independent normals of a layer's own mean and deviation.
// Definitions: docs/commands/routing.md. Deterministic: Philox, keyed by what is asked for.
#pragma once

#include "architecture/router_rule.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace vindex::statistics {

/// How many experts a token takes of each group that it takes any of, the most first.
struct ChoicePattern {
  std::vector<std::uint32_t> parts;
  double chance = 0.0;
  bool operator==(const ChoicePattern&) const = default;
};

/// Which experts a token gets where none is preferred. Groups are exchangeable, and so are the
/// experts of a group, so the chances of patterns say all of it. Without groups: one group, one
/// pattern.
struct ChoiceLaw {
  std::int64_t experts = 1, top_k = 1, groups = 1;
  std::vector<ChoicePattern> patterns;
  std::int64_t group_size() const { return experts / groups; }
  bool is_grouped() const { return groups > 1; }
  /// Chance of one expert.
  double share() const { return static_cast<double>(top_k) / static_cast<double>(experts); }
  /// Chance that a token gets both of two experts of one group; NaN in groups of one.
  double same_group() const;
  /// Of two experts of different groups; of any two without groups.
  double other() const;
  bool operator==(const ChoiceLaw&) const = default;
};

/// Mean and standard deviation of a statistic under its null.
struct DrawnNull {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();
};

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

inline constexpr std::int32_t kRoutingDraws = 1000;

/// The law of the largest of many lifts.
struct MaximumNull {
  DrawnNull null;
  std::vector<double> values;  ///< kRoutingDraws of them, ascending: draws, or quantiles of the law
  /// Chance of a value at least as large, no less than 1 / (kRoutingDraws + 1); NaN of NaN.
  double chance(double value) const;
};

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
/// The largest transition_lift of `tokens` tokens; without values where a law has no patterns.
MaximumNull transition_maximum(const ChoiceLaw& from, const ChoiceLaw& to, std::int64_t tokens);

/// Lifts of pairs that are expected less often than this have a Poisson tail instead of a
/// deviation.
inline constexpr double kFewExpected = 5.0;

}  // namespace vindex::statistics
