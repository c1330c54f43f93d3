// Owns the constants of the error model (spectrum_error.hpp has the argument). With c_i the number
// of other values that E mixes with value i, u the unit of the arithmetic and e, lone, repeated
// from gram_rounding():
//
//   error of s_i^2 = hypot(e (10 + 4 sqrt(c_i)), 8 lone) + 2 blocks
//                    + (10 u + 4 repeated + 2 biased + 6 2^-52 sqrt(p)) s_i^2 + 12 2^-52 s_1^2
//
// where of entries a_i + a_j twice what the diagonal shows of them stands for 2 biased if larger,
// and where a cluster holds a large share of all values what these share, most inside it.
//
// 10 is seven times the sqrt(2) of v^T E v, 4 twice the 2 of Wigner's norm of a random matrix. They
// and the factors in gram_rounding() are set by comparison with float64 LAPACK over a dozen laws of
// values, eight kinds of matrices and every order (docs/measuring/sigma-error.md), such that
// nothing there exceeds what is answered for, and the mean is about a third of it or less.
//
// Why not the worst case, n eps F2 or p eps s_1^2: that is a hundred to a thousand times what
// occurs, and would send every matrix to float64.
#include "spectrum_error.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::statistics {
namespace {

constexpr double kAlone = 10.0;
constexpr double kTogether = 4.0;
/// Of a value itself: a reflector whose factor is rounded is not quite orthogonal and stretches
/// what it turns, by 2.2 roundings rms where one value holds most of the norm (an outlier row).
constexpr double kOwnRoundings = 10.0;
/// Of what a large cluster shares.
constexpr double kSharedRoundings = 4.0;
/// Of `lone` and of `repeated`: twice what occurs (docs/measuring/sigma-error.md).
constexpr double kLone = 8.0;
constexpr double kRepeated = 4.0;
constexpr double kBiased = 2.0;
/// Of `blocks`: three times what occurs.
constexpr double kBlocks = 2.0;
/// Of the largest eigenvalue, by the float64 stages behind every reduction, and by the bias of a
/// float64 diagonal.
constexpr double kFloor = 12.0 * 0x1p-52;
/// The same of a value itself, times the root of the order.
constexpr double kOwnFloor = 6.0 * 0x1p-52;
constexpr int kMaxRounds = 8;
constexpr double kPassWidth = 32.0;
/// What a sweep of a chase does to a value's own line, in roots of its roundings; and what sweeps
/// do to a line that stays one, relative to the root of their number.
constexpr double kOwnOfSweep = 0.5;
constexpr double kRepeatedOfSweeps = 1.0;
/// Of Sturm counts in float32: of a value itself, in the share of kOwnRoundings; of the mean
/// diagonal entry, since every row rounds its own; and of the largest value, what brackets and
/// raised off-diagonals leave.
constexpr double kOwnOfCounts = 0.2;
constexpr double kMeanOfCounts = 2.0;
constexpr double kLeastOfCounts = 0.0625;
/// Of the terms that a sum of equal ones has: three times what occurs
/// (docs/measuring/sigma-error.md).
constexpr double kOfChain = 0.0625;
/// A cluster of more than this share of all values makes rounding less than random.
constexpr double kLargeCluster = 0.0625;
/// Of the values of such a cluster: roundings of each that all go one way, in the cluster's share,
/// as in a multiple of the identity that an even line is added to; and of the largest value, as in
/// equal columns.
constexpr double kAlikeOfOwn = 200.0;
constexpr double kAlikeOfLargest = 12.0;

/// Independent roundings together; `other` 0 leaves the bits of `one`.
double beside(double one, double other) { return other > 0.0 ? std::hypot(one, other) : one; }

double error_of_counts(double largest_square, const Rounding& rounding) {
  return rounding.counts_relative * largest_square + rounding.counts;
}

double error_of_cluster(std::int64_t others, const Rounding& rounding) {
  return std::hypot(rounding.entry * (kAlone + kTogether * std::sqrt(static_cast<double>(others))),
                    kLone * rounding.lone) +
         kBlocks * rounding.blocks;
}

/// What goes with a value's own size.
double own_error(std::size_t p, const Rounding& rounding, double square) {
  const double one_sign =
      std::max(rounding.biased * square,
               rounding.additive_relative * std::min(square, rounding.additive_norm));
  return kBiased * one_sign + (kOwnRoundings * rounding.relative + kRepeated * rounding.repeated +
                               kOwnFloor * std::sqrt(static_cast<double>(p))) *
                                  square;
}

/// In what share the diagonal of a p x p Gram holds the spread of its eigenvalues, less what it
/// holds of it for eigenvectors in random directions: 2/p on average, and by draw up to twice
/// that.
double diagonal_share(double p, double unit, const GramNorms& norms) {
  constexpr double kOfRandomDirections = 4.0;
  const double flat = norms.sum_squares * norms.sum_squares / p;
  const double spread = norms.gram_norm_squared - flat;
  if (!(spread > 4.0 * unit * norms.gram_norm_squared)) {
    return 1.0;  // a multiple of the identity but for rounding: any directions are eigenvectors
  }
  const double share = (norms.diagonal_norm_squared - flat) / spread;
  return std::clamp(share - kOfRandomDirections / p, 0.0, 1.0);
}

/// How many neighbours of the value at `from` of `lambda` (descending), in direction `step`,
/// satisfy `is_within`, which holds up to some place and not beyond it. In steps that double, since
/// a few do in most spectra: searches of the whole spectrum took most of a judgement's time.
template <typename Within>
std::int64_t neighbours(const std::vector<double>& lambda, std::size_t from, std::int64_t step,
                        const Within& is_within) {
  const auto origin = static_cast<std::int64_t>(from);
  const std::int64_t most =
      step > 0 ? static_cast<std::int64_t>(lambda.size()) - 1 - origin : origin;
  const auto holds = [&](std::int64_t distance) {
    return is_within(lambda[static_cast<std::size_t>(origin + step * distance)]);
  };
  std::int64_t within = 0;
  std::int64_t reach = 1;
  while (within + reach <= most && holds(within + reach)) {
    within += reach;
    reach *= 2;
  }
  for (reach = std::min(reach, most - within + 1) / 2; reach > 0; reach /= 2) {
    while (within + reach <= most && holds(within + reach)) {
      within += reach;
    }
  }
  return within;
}

/// How many other values of `lambda` (descending) E mixes with the one at `i`.
std::int64_t mixed_with(const std::vector<double>& lambda, std::size_t i,
                        const Rounding& rounding) {
  std::int64_t others = 0;
  // The more values are mixed, the further E reaches, and the more it mixes: to the fixed point.
  for (int round = 0; round < kMaxRounds; ++round) {
    const double window = error_of_cluster(others, rounding);
    const double top = lambda[i] + window;
    const double bottom = lambda[i] - window;
    if (!(bottom <= top)) {
      break;  // not a number
    }
    const std::int64_t found =
        neighbours(lambda, i, -1, [&](double value) { return !(value > top); }) +
        neighbours(lambda, i, 1, [&](double value) { return value >= bottom; });
    if (found <= others) {
      break;
    }
    others = found;
  }
  return others;
}

}  // namespace

std::vector<double> eigenvalue_errors(std::span<const double> sigma, const Rounding& rounding) {
  std::vector<double> lambda;
  lambda.reserve(sigma.size());
  for (const double s : sigma) {
    lambda.push_back(s * s);
  }
  std::vector<std::int64_t> others;
  for (std::size_t i = 0; i < lambda.size(); ++i) {
    others.push_back(mixed_with(lambda, i, rounding));
  }
  const std::int64_t most = others.empty() ? 0 : *std::max_element(others.begin(), others.end());
  const double share = static_cast<double>(most) / static_cast<double>(lambda.size());
  const double shared =
      lambda.empty() ? 0.0 : rounding.shared_relative * lambda[0] + rounding.shared;
  std::vector<double> errors;
  const bool is_everywhere = share > kLargeCluster;
  for (std::size_t i = 0; i < lambda.size(); ++i) {
    const std::int64_t mixed = is_everywhere ? most : others[i];
    const bool is_inside =
        static_cast<double>(others[i]) > kLargeCluster * static_cast<double>(lambda.size());
    const double alike =
        is_inside ? kAlikeOfLargest * shared + kAlikeOfOwn * share * rounding.relative * lambda[i]
                  : 0.0;
    errors.push_back(error_of_cluster(mixed, rounding) + alike +
                     (is_everywhere ? kSharedRoundings * share * shared : 0.0) +
                     own_error(lambda.size(), rounding, lambda[i]) + kFloor * lambda[0] +
                     error_of_counts(lambda[0], rounding));
  }
  return errors;
}

double matrix_error(std::int64_t p, double largest, const Rounding& rounding) {
  return error_of_cluster(p, rounding) +
         own_error(static_cast<std::size_t>(p), rounding, largest * largest) +
         kFloor * largest * largest + error_of_counts(largest * largest, rounding);
}

ErrorParts matrix_error_parts(std::int64_t p, double largest, const Rounding& rounding) {
  // What goes with a value's size as far as a norm, all the way.
  Rounding unbounded = rounding;
  unbounded.additive_norm = HUGE_VAL;
  return {.each = error_of_cluster(p, rounding) +
                  (kSharedRoundings * rounding.relative + kFloor) * largest * largest +
                  error_of_counts(largest * largest, rounding),
          .own = own_error(static_cast<std::size_t>(p), unbounded, 1.0)};
}

std::vector<double> largest_errors(std::span<const double> squares, std::int64_t p,
                                   const Rounding& rounding) {
  const double mixed = error_of_cluster(p, rounding);
  std::vector<double> errors;
  errors.reserve(squares.size());
  for (const double square : squares) {
    errors.push_back(mixed + own_error(static_cast<std::size_t>(p), rounding, square) +
                     kFloor * squares.front() + error_of_counts(squares.front(), rounding));
  }
  return errors;
}

double lone_error(const Rounding& rounding) { return kLone * rounding.lone; }

double root_error(double s, double error) {
  const double square = s * s;
  return std::max(std::sqrt(square + error) - s, s - std::sqrt(std::max(square - error, 0.0)));
}

Rounding gram_rounding(const GramArithmetic& arithmetic, std::int64_t p, std::int64_t n,
                       const GramNorms& norms) {
  constexpr double kNarrowUnit = 0x1p-24;
  const auto order = static_cast<double>(p);
  const auto depth = static_cast<double>(std::min(arithmetic.depth, n));
  const double pieces = std::max(static_cast<double>(n) / depth, 1.0);
  const double in_group = std::max(static_cast<double>(std::min(arithmetic.group, n)) / depth, 1.0);
  // By how much the lines of the long side are not alike, n times that where one has all.
  const double even = norms.sum_squares * norms.sum_squares / static_cast<double>(n);
  const double uneven = even > 0.0 ? std::max(norms.line_norms_squared / even, 1.0) : 1.0;
  // A sum of `depth` products of independent signs, and of one sign; its addition to the Gram; the
  // reduction.
  // A term of an entry has size F2 / (n p). After k terms of random sign the sum has sqrt(k) of it
  // and is rounded by u times that, so `depth` roundings add up to u depth F2 / (n p), and those of
  // all pieces to u F2 / p / sqrt(pieces). Where few values hold the norm, terms of an entry have
  // one sign: a sum grows to its size, that of its share of ||G||_F / p, which rounds by sqrt(depth
  // / 3) u times that, up to sqrt(depth) where one line has all. Adding piece k rounds an entry
  // that has grown to k / pieces of its size ||G||_F / p: sqrt(pieces) of that in all, or in groups
  // of g pieces that each begin at zero g / sqrt(pieces). A pass of the reduction rounds entries of
  // the size of what is left. Factors: docs/measuring/sigma-error.md. Of the sums of one sign both
  // terms are a guess, and the diagonal knows better.
  const double norm = std::sqrt(norms.gram_norm_squared);
  const double products =
      0.25 * arithmetic.unit * norms.sum_squares / order * std::sqrt(uneven / pieces);
  const double aligned = 0.29 * arithmetic.unit * norm / order *
                         std::sqrt(depth * std::min(uneven / (3.0 * pieces), 1.0));
  const double additions = 0.6 * arithmetic.unit * in_group * norm / order / std::sqrt(pieces);
  const double seen = norms.diagonal_rounding * std::sqrt(norms.aligned_norm_squared) / order;
  const double one_sign = std::max(std::hypot(aligned, additions), seen);
  const auto passes_error = [&](double unit, double norm_squared) {
    return 2.8 * unit * std::sqrt(norm_squared) / order;
  };
  const double reduction = passes_error(arithmetic.reduction_unit, norms.passes_norm_squared);
  const double narrow = passes_error(kNarrowUnit, norms.narrow_passes_norm_squared);
  const double narrow_unit = norms.narrow_passes_norm_squared > 0.0 ? kNarrowUnit : 0.0;
  const double unit = std::max({arithmetic.unit, arithmetic.reduction_unit, narrow_unit});
  // A sweep rounds every entry of what it finds left, which a pass of 32 lines leaves 32 of them.
  const ChaseArithmetic& chase = arithmetic.chase;
  const double sweep = chase.unit * std::sqrt(chase.roundings);
  const double chased =
      chase.unit > 0.0 ? sweep * std::sqrt(kPassWidth * norms.passes_norm_squared) / order : 0.0;
  const double own = beside(kOwnOfSweep * sweep, kOwnOfCounts * arithmetic.values_unit);
  const double lines = std::sqrt(diagonal_share(order, unit, norms));
  const double passes = std::max(order / kPassWidth, 1.0);
  // Entries a_i + a_j are rounded in a pattern, whose norm is not that of a random matrix but one
  // rounding of theirs; their sums round together by what the diagonal shows.
  const double additive = std::sqrt(norms.additive_norm_squared);
  // Lines that are alike make equal terms, which a long sum rounds one way as long as it stays
  // between two powers of two: m of them by up to m / 3 units in the last place of the sum, a few
  // times less as their bits fall. The factors of the update carry that to every entry alike.
  const double chained = kOfChain * arithmetic.reduction_chain * arithmetic.reduction_unit;
  const double patterns =
      (std::max(arithmetic.unit, arithmetic.reduction_unit) + chained) * additive +
      narrow_unit * std::min(additive, std::sqrt(norms.narrow_norm_squared));
  return {
      .entry = std::sqrt(products * products + one_sign * one_sign + reduction * reduction +
                         narrow * narrow + chased * chased),
      .relative = beside(unit, own),
      .lone = lines *
              beside(std::max(arithmetic.unit, arithmetic.reduction_unit) * norms.largest_diagonal +
                         narrow_unit * norms.narrow_largest_diagonal,
                     kOwnOfSweep * sweep * norms.largest_diagonal),
      .repeated =
          lines * beside(std::max(arithmetic.reduction_unit, narrow_unit) * std::sqrt(passes),
                         kRepeatedOfSweeps * kOwnOfSweep * sweep * std::sqrt(order)),
      .biased = norms.gram_norm_squared > 0.0
                    ? norms.diagonal_rounding * norms.aligned_norm_squared / norms.gram_norm_squared
                    : 0.0,
      .blocks = norms.block_rounding + patterns,
      .additive_relative = norms.diagonal_rounding,
      .additive_norm = additive,
      .shared_relative = std::max(arithmetic.unit, arithmetic.reduction_unit),
      .shared = narrow_unit * std::sqrt(norms.narrow_norm_squared),
      .counts_relative = kLeastOfCounts * arithmetic.values_unit,
      .counts = kMeanOfCounts * arithmetic.values_unit * norms.sum_squares / order};
}

double passes_norm_squared(std::int64_t p, double gram_norm_squared) {
  // One value needs no reduction, a few need a part of a pass.
  const double passes = p > 1 ? std::max(static_cast<double>(p - 1) / kPassWidth, 0.25) : 0.0;
  return 0.5 * passes * gram_norm_squared;
}

}  // namespace vindex::statistics
