// Owns what independent experts of given norms give of all that is said of centred experts: their
// cosines, the spectrum along the axis of experts and its ranks.
//
// Why given the norms: removing the mean of experts of unequal norms makes their cosines and
// eigenvalues unequal without any relation between them. With D the squared norms and H = I - 1/E,
// the mean centred Gram of independent directions is H D H: norms that differ by a fifth take the
// largest centred cosine of 64 experts of a million weights a dozen standard deviations from that
// of equal norms. What is left above these nulls is a relation of directions.
#pragma once

#include "expert_axis.hpp"

#include "core/constants.hpp"

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::statistics {

/// From this number of draws on they are better than the law (fill_centred_nulls()).
inline constexpr std::int64_t kEnoughDraws = 1000;

/// Ascending eigenvalues of a symmetric n x n matrix, which is destroyed.
using SymmetricEigenvalues = std::vector<double> (*)(std::span<double> matrix, std::int64_t n,
                                                     const std::stop_token& stop);

/// The same numbers for the same norms and length in every run. Draws: 2^20 / E^2, at least 32 and
/// at most 2,048. Memory: 2 E^2 float64 and that of `eigenvalues`. Cost: up to a second of one core
/// for 384 experts.
/// Source: Bartlett, "On the theory of statistical regression" (1933): the triangular factor of the
/// Gram matrix of normal vectors has independent entries, its rows' directions are uniform.
ExpertNulls draw_expert_nulls(std::span<const double> norms, std::int64_t length,
                              SymmetricEigenvalues eigenvalues, const std::stop_token& stop = {});

}  // namespace vindex::statistics
