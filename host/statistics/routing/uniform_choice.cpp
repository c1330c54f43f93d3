// Owns the two ways of drawing from a law of choices: token by token (a pattern of parts by its
// chance, a random permutation of groups, Floyd's subset within each), and loads of all tokens at
// once.
//
// Loads: tokens are split binomially over patterns, then group by group over the states "these
// parts are still to be given", then within a group expert by expert: of c tokens that take j of
// the m experts left, a binomial number with chance j / m takes the next one. Each split is
// conditional on the ones before, and conditional binomials make a multinomial, so that the loads
// have their exact joint law, in a time that does not depend on the number of tokens. Why not
// always so: which pairs meet is lost in it.
#include "uniform_choice.hpp"

#include "core/constants.hpp"
#include "statistics/samples/random_draws.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

namespace vindex::statistics {

TokenDraws::TokenDraws(const ChoiceLaw& law)
    : law_(law),
      group_size_(static_cast<std::uint32_t>(law.group_size())),
      groups_(static_cast<std::size_t>(law.groups)) {
  double sum = 0.0;
  for (const ChoicePattern& pattern : law.patterns) {
    up_to_.push_back(sum += pattern.chance);
  }
  std::iota(groups_.begin(), groups_.end(), 0);
}

std::span<const std::uint32_t> TokenDraws::next(DrawStream& draws) {
  std::size_t number = 0;
  if (up_to_.size() > 1) {
    const auto found =
        std::upper_bound(up_to_.begin(), up_to_.end(), draws.uniform() * up_to_.back());
    number = std::min(static_cast<std::size_t>(found - up_to_.begin()), up_to_.size() - 1);
  }
  chosen_.clear();
  std::uint32_t taken_groups = 0;
  for (const std::uint32_t part : law_.patterns[number].parts) {
    // The next of a random permutation.
    const auto left = static_cast<std::uint32_t>(groups_.size()) - taken_groups;
    const std::uint32_t at = taken_groups + (left > 1 ? draws.below(left) : 0);
    std::swap(groups_[taken_groups], groups_[at]);
    const std::uint32_t begin = groups_[taken_groups++] * group_size_;
    // Floyd's k of E: Bentley, "Programming pearls: a sample of brilliance", CACM 30 (1987).
    const auto first = static_cast<std::ptrdiff_t>(chosen_.size());
    for (std::uint32_t last = group_size_ - part; last < group_size_; ++last) {
      const std::uint32_t candidate = begin + draws.below(last + 1ULL);
      const bool taken =
          std::find(chosen_.begin() + first, chosen_.end(), candidate) != chosen_.end();
      chosen_.push_back(taken ? begin + last : candidate);
    }
  }
  return chosen_;
}

LoadDraws::LoadDraws(const ChoiceLaw& law)
    : law_(law), group_size_(static_cast<std::size_t>(law.group_size())) {
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  // Parts of groups to come, the largest first, zeros among them.
  const std::function<std::uint32_t(const std::vector<std::uint32_t>&)> state_of =
      [&](const std::vector<std::uint32_t>& parts) {
        if (const auto found = known.find(parts); found != known.end()) {
          return found->second;
        }
        State steps;
        auto left = static_cast<double>(parts.size());
        for (std::size_t i = 0; i < parts.size();) {
          std::size_t end = i;
          while (end < parts.size() && parts[end] == parts[i]) {
            ++end;
          }
          std::vector<std::uint32_t> rest = parts;
          rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
          const auto alike = static_cast<double>(end - i);
          steps.push_back({parts[i], alike / left, state_of(rest)});
          left -= alike;
          i = end;
        }
        const auto number = static_cast<std::uint32_t>(states_.size());
        states_.push_back(std::move(steps));
        known.emplace(parts, number);
        return number;
      };
  for (const ChoicePattern& pattern : law.patterns) {
    std::vector<std::uint32_t> parts = pattern.parts;
    parts.resize(static_cast<std::size_t>(law.groups), 0);
    begins_.push_back(state_of(parts));
  }
  at_.resize(states_.size());
  next_.resize(states_.size());
  taken_.resize(static_cast<std::size_t>(law.top_k) + 1);
}

void LoadDraws::next(std::int64_t tokens, DrawStream& draws, std::span<double> counts) {
  expects(counts.size() == static_cast<std::size_t>(law_.experts), "a count for each expert");
  std::fill(at_.begin(), at_.end(), 0);
  double chance_left = 1.0;
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    const double chance = law_.patterns[i].chance;
    const bool is_last = i + 1 == begins_.size();
    const std::int64_t some = is_last ? tokens : draw_binomial(tokens, chance / chance_left, draws);
    at_[begins_[i]] += some;
    tokens -= some;
    chance_left -= chance;
  }
  for (std::size_t group = 0; group < static_cast<std::size_t>(law_.groups); ++group) {
    std::fill(next_.begin(), next_.end(), 0);
    std::fill(taken_.begin(), taken_.end(), 0);
    for (std::size_t state = 0; state < states_.size(); ++state) {
      std::int64_t left = at_[state];
      for (const Step& step : states_[state]) {
        const std::int64_t some = draw_binomial(left, step.chance, draws);
        next_[step.state] += some;
        taken_[step.part] += some;
        left -= some;
      }
    }
    std::swap(at_, next_);
    split_group(counts.subspan(group * group_size_, group_size_), draws);
  }
}

/// taken_[n] tokens take n experts of the group each: expert after expert.
void LoadDraws::split_group(std::span<double> counts, DrawStream& draws) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto left = static_cast<double>(counts.size() - i);
    std::int64_t chose = 0;
    for (std::size_t n = 1; n < taken_.size(); ++n) {  // ascending: who moves down is done with
      const std::int64_t some = draw_binomial(taken_[n], static_cast<double>(n) / left, draws);
      taken_[n] -= some;
      taken_[n - 1] += some;
      chose += some;
    }
    counts[i] = static_cast<double>(chose);
  }
}

DrawnNull summary_of(const std::vector<double>& values) {
  constexpr double kRounding = 1e-12;  // of sums of equal values
  const double mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0.0;
  for (const double value : values) {
    squares += (value - mean) * (value - mean);
  }
  const double deviation =
      values.size() > 1 ? std::sqrt(squares / (static_cast<double>(values.size()) - 1.0)) : kNaN;
  return {mean, deviation <= kRounding * std::abs(mean) ? 0.0 : deviation};
}

}  // namespace vindex::statistics
