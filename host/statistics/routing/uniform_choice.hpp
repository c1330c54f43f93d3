// Owns the law of which experts a token gets when none is preferred, and draws from it. By symmetry
// a token's choice is known from how many experts it takes of each group: groups are then a random
// permutation, and within a group every subset of that size is equally likely. Without groups that
// is every k of E. With groups the counts follow from how scores are spread, so their law is taken
// from tokens of drawn logits.
//
// Also owns what nulls of routing share: keys of their draws, and the summary of values.
#pragma once

#include "choice_law.hpp"

#include "core/philox.hpp"
#include "statistics/samples/random_draws.hpp"

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Draws tokens one by one: for pairs of experts, of which no smaller law is known.
class TokenDraws {
 public:
  explicit TokenDraws(const ChoiceLaw& law);
  /// The experts of a token, in no order.
  std::span<const std::uint32_t> next(DrawStream& draws);

 private:
  const ChoiceLaw& law_;
  std::uint32_t group_size_;
  std::vector<double> up_to_;  ///< chances of the patterns, summed
  std::vector<std::uint32_t> groups_, chosen_;
};

/// Draws how many of many tokens chose each expert, in time that does not depend on the tokens:
/// they are split binomially, over patterns, then over groups, then over the experts of a group.
/// Exact.
class LoadDraws {
 public:
  explicit LoadDraws(const ChoiceLaw& law);
  /// Selections of each expert, of `tokens` tokens.
  void next(std::int64_t tokens, DrawStream& draws, std::span<double> counts);

 private:
  /// Tokens that still have these parts (experts of groups to come) to give, and what the next
  /// group may take of them.
  struct Step {
    std::uint32_t part = 0;   ///< experts that the group takes
    double chance = 0.0;      ///< among the steps that are left
    std::uint32_t state = 0;  ///< what is left afterwards
  };
  using State = std::vector<Step>;
  void split_group(std::span<double> counts, DrawStream& draws);

  const ChoiceLaw& law_;
  std::size_t group_size_;
  std::vector<State> states_;
  std::vector<std::uint32_t> begins_;            ///< state of each pattern
  std::vector<std::int64_t> at_, next_, taken_;  ///< tokens by state, and by experts of a group
};

enum class NullPurpose : std::uint64_t { kLoads = 1, kTokens, kPairs, kTransitions };

/// A key of DrawStream that differs with every one of `numbers`, so that errors of nulls of
/// different shapes are independent.
inline std::uint64_t null_key(NullPurpose purpose, std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t key = 0x76696E6465780000 + static_cast<std::uint64_t>(purpose);
  for (const std::uint64_t number : numbers) {
    const PhiloxBlock block = philox_block(key, number, 0);
    key = static_cast<std::uint64_t>(block.word[1]) << 32U | block.word[0];
  }
  return key;
}

inline std::uint64_t null_key(NullPurpose purpose, const ChoiceLaw& law, std::int64_t tokens) {
  return null_key(purpose,
                  {static_cast<std::uint64_t>(law.experts), static_cast<std::uint64_t>(law.top_k),
                   static_cast<std::uint64_t>(law.groups), static_cast<std::uint64_t>(tokens)});
}

/// Mean and deviation (over count - 1) of `values`.
DrawnNull summary_of(const std::vector<double>& values);

}  // namespace vindex::statistics
