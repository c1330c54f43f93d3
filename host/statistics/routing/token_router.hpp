// Owns applying a router's rule to the logits of a token.
#pragma once

#include "architecture/router_rule.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace vindex::statistics {

/// What a router did with one token.
struct RoutedToken {
  std::vector<std::int32_t> experts;  ///< k of them, best first
  std::vector<double> weights;        ///< of each
  /// k-th less (k+1)-th of what decides (score + bias, among the experts of the chosen groups); NaN
  /// where every expert that may be chosen is.
  double margin = 0.0;
  double entropy = 0.0;  ///< of all scores as probabilities, in nats
};

/// A rule with the memory to apply it; one thread.
class TokenRouter {
 public:
  /// `bias`: one per expert where the rule has them, else empty. Errors: ConfigurationError
  /// E-ROUTER-RULE (78) where the rule does not fit `experts` (top_k, groups, length of `bias`).
  TokenRouter(const RouterRule& rule, std::int64_t experts, std::span<const float> bias = {});

  /// Routes one token of `logits`, one per expert. False, with `token` unspecified, where a logit
  /// is NaN or +infinity or all are -infinity: such a token goes nowhere. -infinity alone is an
  /// expert that is masked out.
  bool route(std::span<const float> logits, RoutedToken& token);

  const RouterRule& rule() const { return rule_; }
  std::int64_t experts() const { return static_cast<std::int64_t>(scores_.size()); }

 private:
  bool score(std::span<const float> logits);
  void choose_groups();

  RouterRule rule_;
  std::vector<double> bias_, scores_, deciding_;
  std::vector<std::int32_t> order_;  ///< experts that may be chosen
  std::vector<std::pair<double, std::int32_t>> group_scores_;
};

}  // namespace vindex::statistics
