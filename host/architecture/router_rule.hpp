// Owns how a router turns the logits of one token into experts and their weights. Read from a model
// by model/routers/read_router_rule.hpp, applied by statistics/routing/routing_statistics.hpp; a
// value, no behaviour.
#pragma once

#include <cstdint>
#include <string_view>

namespace vindex {

/// From logits to scores.
enum class RouterScoring : std::uint8_t {
  kSoftmax,       ///< over all experts
  kSigmoid,       ///< of each by itself
  kSqrtSoftplus,  ///< sqrt(ln(1 + e^x)): DeepSeek-V4
};

/// What a group of experts is worth where only the best groups may be chosen from.
enum class GroupScore : std::uint8_t {
  kLargest,     ///< DeepSeek-V2
  kTwoLargest,  ///< their sum: DeepSeek-V3 and what follows it
};

/// A token's k experts are those of the largest score (plus the expert's bias, where the router has
/// biases) within its `chosen_groups` best groups; equal ones: the larger logit, then the smaller
/// number. Weights are scores without bias, divided by their sum where `normalised`, times `scale`.
/// A softmax over the chosen logits alone (gpt_oss, granitemoe) is kSoftmax, normalised.
struct RouterRule {
  RouterScoring scoring = RouterScoring::kSoftmax;
  std::int64_t top_k = 1;
  bool normalised = false;
  double sum_offset = 0.0;  ///< added to the sum that weights are divided by
  double scale = 1.0;
  std::int64_t groups = 1;         ///< neighbours of equal number; 1: no groups
  std::int64_t chosen_groups = 1;  ///< of each token
  GroupScore group_score = GroupScore::kTwoLargest;
  bool biased = false;  ///< a bias per expert is added to scores that choose
  bool is_grouped() const { return groups > 1 && chosen_groups < groups; }
  bool operator==(const RouterRule&) const = default;
};

/// "softmax", "sigmoid", "sqrtsoftplus".
constexpr std::string_view scoring_name(RouterScoring scoring) {
  switch (scoring) {
    case RouterScoring::kSoftmax:
      return "softmax";
    case RouterScoring::kSigmoid:
      return "sigmoid";
    case RouterScoring::kSqrtSoftplus:
      break;
  }
  return "sqrtsoftplus";
}

}  // namespace vindex
