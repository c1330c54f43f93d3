// Owns into how many stages a chain of layers falls, from the similarity of every layer and the
// next one (C5 of the analysis contract, `vindex cka`).
//
// A break is a fall out of the smooth trend of its neighbours: a value lower than what lies on
// either side of it. Neighbours whose similarity rises or falls with depth are no breaks, however
// steeply (in `x += noise` it rises from 1/2 to 1): on one side of each lies what is as low. The
// rule, for value v_i with standard error e_i:
//
//   v_i < level_i - max(3 x 1.4826 x MAD, 3 x e_i)
//
// level_i: the lower one of the medians of up to three values on the left and on the right; where
//   they do not change with depth, the median of all, as the published rule has it. The first and
//   the last value have one side: level_i is the lower one of its median and its nearest value,
//   less three times the rise behind that, which no sum of equal steps exceeds (x_(l+1) = x_l + e:
//   v = 1/(1 + s), 1/2, 2/3, ... from any size s of x_0); e_i then counts the errors of the values
//   that this is taken from.
// MAD: median absolute deviation of values from the middle of both sides; in the first round from
//   the nearer one, since a break widens the deviations of its neighbours.
//
// The second round leaves the breaks of the first out of levels and MAD. 1.4826 makes the MAD of a
// normal distribution its standard deviation (Iglewicz and Hoaglin 1993). docs/commands/cka.md has
// how often chains without a break show one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vindex::statistics {

/// Similarity of a layer and the next one, with its standard error (statistics/cka/cka.hpp).
struct Adjacent {
  double value = 0.0;
  double error = 0.0;
};

/// How many stages layers fall into, and by which limits.
struct Stages {
  std::int64_t count = 1;           ///< 1 + breaks
  std::vector<std::size_t> breaks;  ///< positions whose value is a break, ascending
  std::vector<double> limits;  ///< below which each value is a break; NaN: nothing to judge it by
  double median = 0.0;         ///< of the values
  double mad = 0.0;            ///< of the last round
};

/// Nothing where there is no value, or where one of them or its error is NaN.
std::optional<Stages> count_stages(const std::vector<Adjacent>& adjacent);

}  // namespace vindex::statistics
