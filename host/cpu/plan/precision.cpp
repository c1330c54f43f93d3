// Owns the reasons. Rounding of a Gram matrix goes with its norm, so what it leaves of the small
// values goes with how much of that norm the large ones hold. Its effective rank, trace^2 /
// norm^2, says so for nothing: p n / (p + n) for noise, p / 7 for a geometric fall to a thousandth,
// 2.5 for values like 1/i, 1 for one value alone.
//
// How far down the smallest values lie no norm tells. Pivots of a Cholesky factor do, roughly: in
// coordinates that are no eigenvectors the k-th one is what k others leave of a column, a mean of
// the values behind the largest k. A quarter of the lines gives the first of those, for next to
// nothing, and how they fall the rest: within a factor of some in s^2, which is as good as a choice
// of precision needs.
#include "precision.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_error.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::cpu {
namespace {

constexpr double kUnit = 0x1p-24;
/// Errors that are answered for, in rms errors of an entry: of a value that few others are mixed
/// with (statistics/judgement/spectrum_error.cpp), and of p that are equal.
constexpr double kFew = 20.0;
double together(std::int64_t p) { return 10.0 + 4.0 * std::sqrt(static_cast<double>(p)); }
/// Relative errors of s that `default` answers for: of the largest kFastValues, of others.
constexpr double kTopRelative = 2e-5;
constexpr double kRelative = 4e-4;

double error_of_few(const statistics::Rounding& rounding) {
  constexpr double kLone = 8.0;
  return std::hypot(kFew * rounding.entry, kLone * rounding.lone);
}

/// Of a Gram matrix over n of which this is the part over `rows`.
statistics::GramNorms whole_norms(const FirstGroup& group) {
  const double more = static_cast<double>(group.n) / static_cast<double>(group.rows);
  statistics::GramNorms norms = group.norms;
  norms.sum_squares *= more;
  norms.gram_norm_squared *= more * more;
  norms.diagonal_norm_squared *= more * more;
  norms.largest_diagonal *= more;
  norms.line_norms_squared *= more;
  return norms;
}

}  // namespace

std::int64_t outline_order(std::int64_t p, std::int64_t n) {
  constexpr std::int64_t kLeast = 64;
  const std::int64_t order = std::min(p / 4, n / 2);
  return order < kLeast ? 0 : order;
}

std::int64_t first_group_rows(std::int64_t p, std::int64_t chunk) {
  return ceil_divide(std::max(kGroupRows, p / 2), chunk) * chunk;
}

std::int64_t like_groups(double sum_of_cubes, std::int64_t n) {
  return static_cast<std::int64_t>(std::ceil(std::sqrt(sum_of_cubes / static_cast<double>(n))));
}

bool is_like_noise(const FirstGroup& group) {
  constexpr double kManyMatter = 0.8;
  const auto p = static_cast<double>(group.p);
  const auto rows = static_cast<double>(group.rows);
  const double rank =
      group.norms.sum_squares * group.norms.sum_squares / group.norms.gram_norm_squared;
  return !(rank < kManyMatter * p * rows / (p + rows));
}

GramSums choose_sums(const FirstGroup& group, const SpectrumOutline& outline) {
  constexpr double kNextToNothing = 0.1;
  statistics::GramNorms norms = whole_norms(group);
  const double others = norms.sum_squares - std::sqrt(norms.gram_norm_squared);
  const double behind = static_cast<double>(std::max(group.n - group.rows, std::int64_t{0}));
  const double cubes = std::pow(static_cast<double>(group.rows), 3.0) +
                       behind * static_cast<double>(kGroupRows) * static_cast<double>(kGroupRows);
  const statistics::GramArithmetic grouped = {.unit = kUnit,
                                              .depth = group.chunk,
                                              .reduction_unit = 0.0,
                                              .group = like_groups(cubes, group.n)};
  const statistics::Rounding sums = statistics::gram_rounding(grouped, group.p, group.n, norms);
  if (others < kNextToNothing * norms.sum_squares) {
    // They may be a cluster of equal values, each of which has to be as exact as the largest.
    const double each = others / std::max(static_cast<double>(group.p - 1), 1.0);
    if (2.0 * kTopRelative * each < together(group.p) * sums.entry) {
      return GramSums::kWide;
    }
  }
  norms.passes_norm_squared = statistics::passes_norm_squared(group.p, norms.gram_norm_squared);
  const statistics::Rounding narrow =
      statistics::gram_rounding({.unit = kUnit, .depth = group.chunk}, group.p, group.n, norms);
  const double allowed =
      norms.sum_squares / group.norms.sum_squares * allowed_rounding(outline, group.p, group.n);
  if (error_of_few(narrow) <= kFew * allowed) {
    return GramSums::kNarrow;
  }
  // Products in float64 cost less than a spectrum that has to be computed again.
  constexpr double kNearly = 1.2;
  return error_of_few(sums) <= kNearly * kFew * allowed ? GramSums::kGrouped : GramSums::kWide;
}

double last_level(const SpectrumOutline& outline) {
  if (!(outline.level > 0.0)) {
    return 0.0;
  }
  const double level = std::log(outline.level);
  const double half = std::log(outline.half);
  // From a quarter to half of `seen` as from half to all of it by a power law; half as far by a
  // geometric fall. Between the two by what is found.
  const double by_power = half + (half - std::log(outline.quarter));
  const double by_fall = half + 2.0 * (half - std::log(outline.quarter));
  const double geometric =
      by_fall < by_power ? std::clamp((by_power - level) / (by_power - by_fall), 0.0, 1.0) : 1.0;
  const double slope = std::min(level - half, 0.0);
  const double power_steps = -std::log2(outline.seen);
  const double fall_steps = (1.0 - outline.seen) / (0.5 * outline.seen);
  return std::exp(level + slope * (geometric * fall_steps + (1.0 - geometric) * power_steps));
}

double allowed_rounding(const SpectrumOutline& outline, std::int64_t p, std::int64_t n,
                        double of_distance) {
  constexpr double kFlat = 0.98;
  const double last = last_level(outline);
  const double largest = outline.norm_squared / outline.trace;  // at least so much
  if (!(last > statistics::kMinDecided * statistics::kMinDecided * largest)) {
    return 0.0;
  }
  const double fall = std::min(outline.level / outline.half, 1.0);
  const double least_relative =
      largest / (statistics::kModestCondition * statistics::kModestCondition);
  const double factor = fall > kFlat ? together(p) : kFew;
  const double absolute = 2.0 * statistics::kDefaultError * std::sqrt(last * largest);
  const double relative = 2.0 * kRelative * std::max(last, least_relative);
  const double top = 2.0 * kTopRelative * outline.top;
  double allowed = std::min({absolute, relative, top});
  const double threshold = std::pow(static_cast<double>(n) * kEps32, 2.0) * largest;
  constexpr double kAsGoodAsAnOutlineIs = 3.0;
  if (last < kAsGoodAsAnOutlineIs * threshold && threshold < outline.top && fall <= kFlat) {
    const double steps = 0.5 * outline.seen * static_cast<double>(p);
    allowed = std::min(allowed, of_distance * threshold * -std::log(fall) / steps);
  }
  return allowed / factor;
}

}  // namespace vindex::cpu
