// Owns what `show --top` prints of single pairs of a file of `vindex compare`. What it says of
// groups of them: comparison_summary.hpp.
#pragma once

#include "results/view/summary.hpp"

namespace vindex::commands {

results::Summary pair_summary(const results::ResultsView& shown);

/// Relative error of unrelated weights of these norms, whose inner product is 0 on average:
/// sqrt(1 + (norm_b / norm_a)^2). NaN where A is zero.
double unrelated_error(double norm_a, double norm_b);

}  // namespace vindex::commands
