// Owns the law of the largest lift of many pairs where no expert is preferred. Three ways, by what
// is cheap and right:
//  - of a thousand pairs and more, where experts are chosen a hundred times, the law of independent
//    pairs: each lift has its own law (the pair's count binomial, the loads given it normal in
//    their logarithms but for a skewness), and they depend on each other by 1/E only;
//  - of as many pairs with fewer selections, as many tokens as there are, drawn;
//  - of fewer pairs, whose dependence counts, tokens drawn too, but no more than cost a second; the
//    largest lifts of more follow by mean, deviation and skewness of a lift, since dependence does
//    not change with tokens.
#pragma once

#include "choice_law.hpp"

#include <cstdint>
#include <vector>

namespace vindex::statistics {

/// A kind of pairs that are alike: chances of either expert and of both.
struct PairLaw {
  double a = 0.0, b = 0.0, both = 0.0;
  double pairs = 0.0;  ///< how many there are
  double mean() const { return both / (a * b); }
  /// Deviation and skewness of a lift of `tokens` tokens, to first order in 1/tokens.
  double deviation(double tokens) const;
  double skewness(double tokens) const;
};

/// Pairs of one layer's experts: of one group (no pairs without groups), and the others.
PairLaw same_group_pairs(const ChoiceLaw& law);
PairLaw other_pairs(const ChoiceLaw& law);

/// The law of the largest of many lifts.
struct MaximumNull {
  DrawnNull null;
  std::vector<double> values;  ///< kRoutingDraws of them, ascending: draws, or quantiles of the law
  /// Chance of a value at least as large, no less than 1 / (kRoutingDraws + 1); NaN of NaN.
  double chance(double value) const;
};

MaximumNull coactivation_maximum(const ChoiceLaw& law, std::int64_t tokens);

/// The largest transition_lift of `tokens` tokens; without values where a law has no patterns.
MaximumNull transition_maximum(const ChoiceLaw& from, const ChoiceLaw& to, std::int64_t tokens);

}  // namespace vindex::statistics
