// Owns what independent experts of given norms give of the cosines of centred experts, by their
// law.
#pragma once

#include "cosine_summary.hpp"

#include <span>

namespace vindex::statistics {

/// The nulls of a centred `summary` of experts of `norms` (at least two, not all 0) whose
/// directions are independent and uniform among `length` weights, by their law. Of one pair chosen
/// at random: its null -1/(E-1), and null_sd about it. The largest: of independent normal cosines,
/// each with its own mean and deviation. Within 0.1 standard deviations from eight experts up.
/// Cost: E^2 / 2 times a hundred error functions, 0.1 s for 384 experts.
void fill_centred_nulls(std::span<const double> norms, double length, CosineSummary& summary);

}  // namespace vindex::statistics
