// Owns where a router sends tokens, as numbers: loads, how even they are, which experts are chosen
// together and after one another. Definitions: docs/commands/routing.md. Float64 on the host; sums
// run over tokens in their order, so that no bit depends on how tokens are cut into pieces.
#pragma once
#include "load_statistics.hpp"
#include "routing_nulls.hpp"
#include "token_router.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace vindex::statistics {

struct RoutingStatistics {
  std::int64_t tokens = 0;          ///< routed
  std::vector<double> load;         ///< [E], share of all selections
  std::vector<double> mean_weight;  ///< [E], over the tokens that chose the expert; NaN without one
  double overall_weight = std::numeric_limits<double>::quiet_NaN();    ///< mean over all selections
  double weight_deviation = std::numeric_limits<double>::quiet_NaN();  ///< of all selections
  LoadStatistics loads;
  double router_entropy = std::numeric_limits<double>::quiet_NaN();  ///< mean over tokens
  double margin = std::numeric_limits<double>::quiet_NaN();          ///< median over tokens
  /// [E, E]: tokens that chose both, over tokens * share of tokens that chose either. NaN on the
  /// diagonal and beside an expert without a selection.
  std::vector<float> coactivation_lift;
};

/// Deviation of an expert's mean weight where none is preferred: of the selections that `share` of
/// the tokens let it expect.
double mean_weight_deviation(const RoutingStatistics& statistics, double share);

/// Takes tokens of one layer.
class RoutingTally {
 public:
  RoutingTally(std::int64_t experts, std::int64_t tokens);
  void add(const RoutedToken& token);
  RoutingStatistics statistics() const;
  /// [E, E]: of pairs that the two loads and `nulls` let expect fewer than kFewExpected times,
  /// the two-sided Poisson mid-p of how often they met (poisson_tail()); NaN elsewhere.
  /// `group_size`: of the rule, E without groups.
  std::vector<float> tails(const UniformRoutingNulls& nulls, std::int64_t group_size) const;
  /// What it holds, statistics() and tails() among it.
  static std::uint64_t memory_bytes(std::int64_t experts, std::int64_t tokens);

 private:
  std::size_t experts_;
  std::int64_t tokens_ = 0;
  std::vector<double> counts_, weights_;
  double weight_squares_ = 0.0;
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
  /// [from, to]: as RoutingTally::tails().
  std::vector<float> tails() const;
  std::int64_t tokens() const { return tokens_; }
  static std::uint64_t memory_bytes(std::int64_t from, std::int64_t to);

 private:
  std::vector<double> from_, to_;
  std::vector<std::uint32_t> pairs_;  ///< [from, to]
  std::int64_t tokens_ = 0;
};

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

}  // namespace vindex::statistics
