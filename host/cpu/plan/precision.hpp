// Owns the choice of precision for one matrix before it is paid for: how its Gram matrix is summed,
// from what the first rows show, and how much a reduction may round, from what the Gram matrix
// shows. Pure. A choice that proves wrong costs time and nothing else: what a route answers for is
// computed from what it did (statistics/judgement/spectrum_error.hpp), and judged
// (statistics/judgement/judgement.hpp).
#pragma once

#include "statistics/judgement/spectrum_error.hpp"

#include <cstdint>

namespace vindex::cpu {

/// How the products of a Gram matrix are added up.
enum class GramSums : std::uint8_t {
  kNarrow,   ///< in float32
  kGrouped,  ///< in float32 over a group of the long side, groups in float64
  kWide,     ///< products and sums in float64
};

/// Of the long side, summed in float32 before float64 takes over: a pass over the matrix of sums
/// then costs a tenth of the products, and additions round no more than products do.
inline constexpr std::int64_t kGroupRows = 1024;

/// What is known of a spectrum before it is computed, from a Gram matrix. Squares of singular
/// values throughout.
struct SpectrumOutline {
  double trace = 0.0;         ///< of the Gram matrix
  double norm_squared = 0.0;  ///< its squared Frobenius norm
  /// Level of the values behind the largest `seen`, behind half and a quarter as many. 0: below
  /// float32.
  double level = 0.0, half = 0.0, quarter = 0.0;
  double seen = 0.0;  ///< share of all values
  double top = 0.0;   ///< level behind those that have to be exact to 1e-5
};

/// Level of the smallest values, as the outline goes on.
double last_level(const SpectrumOutline& outline);

/// Order of a Cholesky factor that says so of a p x p Gram matrix over n rows; 0: too small.
std::int64_t outline_order(std::int64_t p, std::int64_t n);

/// The Gram matrix of the first `rows` of the long side.
struct FirstGroup {
  std::int64_t p = 0, n = 0;  ///< short and long side of the whole matrix
  std::int64_t chunk = 0;     ///< SvdPlan::chunk
  std::int64_t rows = 0;
  statistics::GramNorms norms = {};  ///< none of a reduction
};

/// Rows of that group: as many as show a half of the outline that all would, kGroupRows at least;
/// whole chunks.
std::int64_t first_group_rows(std::int64_t p, std::int64_t chunk);

/// Rows of groups that are all alike and round as much as those of which the sum of rows^3 is
/// given: adding up k rows rounds by sqrt(k^3), and groups add by their squares.
std::int64_t like_groups(double sum_of_cubes, std::int64_t n);

/// True where its effective rank is that of noise: in such spectra most values matter, and sums in
/// float32 leave all but a few of them.
bool is_like_noise(const FirstGroup& group);

/// How to add up all of it where it is not.
GramSums choose_sums(const FirstGroup& group, const SpectrumOutline& outline);

/// Part of the distance between values at the threshold of numerical_rank that an error may be.
inline constexpr double kOfDistance = 0.1;
/// The same where products were formed in float64, so that a few passes of a reduction more do it.
inline constexpr double kOfDistanceAtLittleCost = 0.002;

/// Rms error of the entries of a p x p Gram matrix over n and its reduction that leaves the values
/// of such a spectrum as `default` promises them; 0 where those are beyond float32. A value within
/// its error of the threshold of numerical_rank leaves that open: errors there are to be at most
/// `of_distance` of the distance between values.
double allowed_rounding(const SpectrumOutline& outline, std::int64_t p, std::int64_t n,
                        double of_distance = kOfDistance);

}  // namespace vindex::cpu
