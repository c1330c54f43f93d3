// Owns where a router sends tokens, as numbers: loads, how even they are, which experts are chosen
// together and after one another. Definitions: docs/routing.md. Float64 on the host; sums run over
// tokens in their order, so that no bit depends on how tokens are cut into pieces.
#pragma once

#include <vindex/measure/token_router.hpp>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::measure {

/// How evenly selections fall on experts.
struct LoadStatistics {
  double cv = std::numeric_limits<double>::quiet_NaN();       ///< population deviation over mean
  double entropy = std::numeric_limits<double>::quiet_NaN();  ///< of the shares, over ln E
  double gini = std::numeric_limits<double>::quiet_NaN();
  double max_over_mean = std::numeric_limits<double>::quiet_NaN();
  std::int64_t dead_experts = 0;  ///< without a selection
};

/// Of selections per expert; all NaN where there is none, entropy NaN for one expert.
LoadStatistics load_statistics(std::span<const double> counts);

struct RoutingStatistics {
  std::int64_t tokens = 0;          ///< routed
  std::vector<double> load;         ///< [E], share of all selections
  std::vector<double> mean_weight;  ///< [E], over the tokens that chose the expert; NaN without one
  double overall_weight = std::numeric_limits<double>::quiet_NaN();  ///< mean over all selections
  LoadStatistics loads;
  double router_entropy = std::numeric_limits<double>::quiet_NaN();  ///< mean over tokens
  double margin = std::numeric_limits<double>::quiet_NaN();          ///< median over tokens
  /// [E, E]: tokens that chose both, over tokens * share of tokens that chose either. NaN on the
  /// diagonal and beside an expert without a selection.
  std::vector<float> coactivation_lift;
};

/// Takes tokens of one layer.
class RoutingTally {
 public:
  RoutingTally(std::int64_t experts, std::int64_t tokens);
  void add(const RoutedToken& token);
  RoutingStatistics statistics() const;
  /// What it holds, statistics() among it.
  static std::uint64_t memory_bytes(std::int64_t experts, std::int64_t tokens);

 private:
  std::size_t experts_;
  std::int64_t tokens_ = 0;
  std::vector<double> counts_, weights_;
  std::vector<std::uint32_t> pairs_;  ///< [E, E], above the diagonal
  double entropy_ = 0.0;
  std::vector<double> margins_;  ///< those that are numbers
};

/// Takes tokens of two layers in lock-step.
class TransitionTally {
 public:
  TransitionTally(std::int64_t from, std::int64_t to);
  void add(const RoutedToken& from, const RoutedToken& to);
  /// [from, to]: tokens that chose f in the one layer and t in the other, over tokens * share of f
  /// * share of t; NaN beside an expert without a selection.
  std::vector<float> lift() const;
  std::int64_t tokens() const { return tokens_; }
  static std::uint64_t memory_bytes(std::int64_t from, std::int64_t to);

 private:
  std::vector<double> from_, to_;
  std::vector<std::uint32_t> pairs_;  ///< [from, to]
  std::int64_t tokens_ = 0;
};

/// Mean and standard deviation over draws.
struct DrawnNull {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();
};

inline constexpr std::int32_t kRoutingDraws = 200;
/// More expected selections than this for each expert: loads are drawn from their normal limit.
inline constexpr double kExactSelections = 2000.0;

/// What the statistics are where every token's experts are drawn by themselves and no expert is
/// preferred: any k of E equally likely; with groups, those that independent normal logits give.
struct UniformRoutingNulls {
  double load = 0.0;            ///< 1/E, exact
  double load_deviation = 0.0;  ///< of one expert's load, exact
  DrawnNull cv, entropy, gini, max_over_mean;
  double dead_experts = 0.0;  ///< mean, exact
  /// Of a coactivation_lift (mean q/p^2, deviation to first order in 1/tokens): of experts of
  /// different groups where the rule has groups.
  double coactivation = 0.0, coactivation_deviation = 0.0;
  /// Of experts of one group; NaN without groups.
  double same_group = std::numeric_limits<double>::quiet_NaN();
  double same_group_deviation = std::numeric_limits<double>::quiet_NaN();
};

/// Of `tokens` tokens. The same draws in every call with equal arguments (Philox, a fixed key).
/// Errors: as TokenRouter.
UniformRoutingNulls uniform_routing_nulls(const RouterRule& rule, std::int64_t experts,
                                          std::int64_t tokens, std::int32_t draws = kRoutingDraws,
                                          std::uint64_t stream = 0);

/// Deviation of a transition_lift of `tokens` tokens between layers that choose these shares of
/// their experts; its mean is 1.
double transition_deviation(std::int64_t tokens, double share_from, double share_to);

/// A router without knowledge: its logits are independent normals of a given mean and deviation.
struct NoiseRouter {
  double entropy = std::numeric_limits<double>::quiet_NaN();  ///< mean over tokens
  double margin = std::numeric_limits<double>::quiet_NaN();   ///< median over tokens
};

inline constexpr std::int64_t kNoiseTokens = 4096;
/// Of kNoiseTokens drawn tokens, without bias. NaN for a deviation that is no number.
NoiseRouter noise_router(const RouterRule& rule, std::int64_t experts, double mean,
                         double deviation, std::uint64_t stream = 0);

/// Mean of all logits and their deviation about the mean of their token, over tokens in their
/// order.
class LogitSpread {
 public:
  void add(std::span<const float> logits);
  double mean() const;
  double deviation() const;  ///< sqrt of the mean over tokens of the variance (over E - 1)

 private:
  std::int64_t tokens_ = 0;
  double means_ = 0.0, variances_ = 0.0;
};

}  // namespace vindex::measure
