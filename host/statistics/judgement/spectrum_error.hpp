// Owns what is known of the error of a spectrum that was computed through a Gram matrix: from the
// rounding in that matrix to an error of every singular value. Pure arithmetic, shared by back
// ends.
//
// The model. A route leaves the eigenvalues of G + E, where E is symmetric and its entries are
// rounding of rms size e. E is as good as random (sums of thousands of roundings), so an eigenvalue
// that stands alone moves by v^T E v, of size sqrt(2) e, and the c values of a cluster, which E
// mixes at will, by at most the norm of a random matrix of that order, 2 sqrt(c) e (Wigner). What
// is answered for is seven times the first plus twice the second, plus a few roundings of the value
// itself and a few float64 roundings of the largest.
//
// Rounding of an entry follows its size, and E is only as good as random where the entries are much
// of a size: where eigenvectors are spread over many lines. Where lines of the short side are
// orthogonal and of unequal norm (U diag(s), diag(s) V^T) the Gram is diagonal, an eigenvector is a
// line, and rounding of the entry of the strongest line goes in full to whichever value the
// reduction puts there: that is added as `lone`, in the share in which the diagonal holds what the
// spectrum has of unequal values (1 there, 2/p for eigenvectors in any direction, where it is
// left out), and as `repeated` what every pass does to a value's own line.
//
// Sums of one sign (weights with a mean, lines that are nearly parallel, outlier rows) of weights
// with few bits do not round at random: a square is 0, 1 or 4 mod 8, and equal terms round alike.
// How much they did is seen on the diagonal, whose exact sums are known: where it is more than the
// model says, the entries that are sums of one sign are taken to have rounded as much. Where blocks
// of lines have a scale each (fp8), they differ by block, and E is no random matrix: a value may
// err by all of its norm.
//
// Where one cluster holds more than a sixteenth of all values (a matrix that is nearly a multiple
// of the identity, or of low rank above a flat floor) rounding is less random: its count is then
// taken for every value, and roundings of the largest value in its share. Entries that are alike
// round alike: inside the cluster so many roundings are answered for as all of one direction give.
// docs/measuring/sigma-error.md has all of this beside float64 LAPACK,
// tests/backend/sigma_error_test.cpp holds it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Rounding in the matrix whose eigenvalues a spectrum is. NaN: nothing is known.
struct Rounding {
  double entry = std::numeric_limits<double>::quiet_NaN();  ///< rms of E's entries, units of s^2
  double relative = 0.0;  ///< of the arithmetic that made it: 2^-24, 2^-53
  double lone = 0.0;      ///< of one entry of the diagonal that stays on one value, units of s^2
  double repeated = 0.0;  ///< of a value's own line by all passes, relative to the value
  double biased = 0.0;    ///< of sums whose terms have one sign, relative to the value
  double blocks = 0.0;    ///< of blocks of entries that round alike, in units of s^2
  /// Of entries a_i + a_j: of their sums, relative, and the norm of these entries, in units of s^2.
  double additive_relative = 0.0;
  double additive_norm = 0.0;
  /// What a cluster of many values shares: relative to the largest value, and in units of s^2.
  double shared_relative = 0.0;
  double shared = 0.0;
  /// Of Sturm counts that round, of every value: relative to the largest one, and in units of s^2.
  double counts_relative = 0.0;
  double counts = 0.0;
};

/// Error of every eigenvalue s^2 of a spectrum (`sigma` descending), in units of s^2.
std::vector<double> eigenvalue_errors(std::span<const double> sigma, const Rounding& rounding);

/// Bound of |E|_2, for what is to hold for all values at once. `largest` is s_1.
double matrix_error(std::int64_t p, double largest, const Rounding& rounding);

/// The same in two parts, for sums over values: E moves the eigenvalue s^2 by at most `each` +
/// `own` s^2.
struct ErrorParts {
  double each = 0.0;  ///< units of s^2
  double own = 0.0;
};
ErrorParts matrix_error_parts(std::int64_t p, double largest, const Rounding& rounding);

/// Error of each of the largest eigenvalues `squares` (descending) of a p x p matrix, in their
/// units, whatever the others are: E may mix each with all, but what goes with a value's own size
/// goes with that alone.
std::vector<double> largest_errors(std::span<const double> squares, std::int64_t p,
                                   const Rounding& rounding);

/// What `lone` leaves on one value, in units of s^2: in a sum over values it counts once.
double lone_error(const Rounding& rounding);

/// Largest |sqrt(l) - s| over l >= 0 within `error` of s^2.
double root_error(double s, double error);

/// How a band becomes tridiagonal: by a sweep for every line, each of which reflects all that is
/// left of the band.
struct ChaseArithmetic {
  double unit = 0.0;  ///< 0: as good as float64, and not counted
  /// Mean square, in units of an entry's own rounding, of what one sweep leaves in an entry.
  double roundings = 0.0;
};
/// All of it in float32: an entry is reflected from both sides, in windows whose sums and
/// reflectors round beside it. Measured at orders 512 to 2048 (docs/measuring/sigma-error.md).
inline constexpr ChaseArithmetic kChase32 = {.unit = 0x1p-24, .roundings = 3.5};
/// In float64 over a band that is stored in float32: an entry rounds once for a group of sweeps.
constexpr ChaseArithmetic stored_chase32(int sweeps_of_a_group) {
  return {.unit = 0x1p-24, .roundings = 0.32 / sweeps_of_a_group};
}

/// How a Gram matrix was formed and reduced to tridiagonal form.
///
/// A matrix unit (cpu/gram/tile_product.hpp) adds up 16 products in each of two sums, those two,
/// and the result to an accumulator, all in float32. Over d contracted indices of random signs the
/// squares of its roundings come to (9.5 + d / 64) d of a term's, those of one running sum to d / 2
/// times d: at 256 a third of the error. It is answered for as a running sum of that depth, since
/// what it saves is a small part of the reduction's rounding behind it. Weights are split exactly.
struct GramArithmetic {
  double unit = 0x1p-24;            ///< relative precision of products, sums and the Gram's entries
  std::int64_t depth = 256;         ///< of the long side, summed before it is added to the Gram
  double reduction_unit = 0x1p-24;  ///< relative precision of the reduction, as far as it goes
  /// Of the long side, added up in `unit` before float64 takes over; the longest: all of it.
  std::int64_t group = std::numeric_limits<std::int64_t>::max();
  /// Terms that the reduction's sums over a line add one after the other in its precision.
  double reduction_chain = 0.0;
  ChaseArithmetic chase = {};
  /// Of bisection behind a chase; 0: float64.
  double values_unit = 0.0;
};
struct GramNorms {
  double sum_squares = 0.0;            ///< F2 of the weights
  double gram_norm_squared = 0.0;      ///< ||G||_F^2
  double diagonal_norm_squared = 0.0;  ///< sum of squares of the diagonal of G
  double largest_diagonal = 0.0;       ///< its largest entry
  /// Sum over the lines of the long side of ||line||^4; 0: taken for lines that are all alike.
  double line_norms_squared = 0.0;
  /// What the exact diagonal says of float32 sums of one sign: the rms of how much they rounded,
  /// relative to themselves. 0: not looked at.
  double diagonal_rounding = 0.0;
  /// Sum over the entries off the diagonal of G_ij^2 cos_ij^2, cos_ij = G_ij / sqrt(G_ii G_jj): the
  /// part of ||G||_F^2 whose sums are of one sign.
  double aligned_norm_squared = 0.0;
  /// By how much neighbouring lines were seen to round alike, and others not, times the Frobenius
  /// norm of G_ij cos_ij^2: what blocks of sums of one sign may differ by.
  double block_rounding = 0.0;
  /// Sum of squares of the entries off the diagonal that are a_i + a_j, as those of a constant plus
  /// a diagonal are: their sums are of one sign whatever their cosine, and round in a pattern.
  double additive_norm_squared = 0.0;
  /// Sum over the passes of the reduction of ||what is left of G||_F^2: each pass rounds that.
  double passes_norm_squared = 0.0;
  /// The same of the passes that follow in float32; and of what they reduce, the squared Frobenius
  /// norm and the largest entry of the diagonal.
  double narrow_passes_norm_squared = 0.0;
  double narrow_norm_squared = 0.0;
  double narrow_largest_diagonal = 0.0;
};
/// Rounding of a p x p Gram matrix over a long side of n, in the units of `norms`.
Rounding gram_rounding(const GramArithmetic& arithmetic, std::int64_t p, std::int64_t n,
                       const GramNorms& norms);

/// passes_norm_squared where only ||G||_F^2 is known: as many passes over blocks of 32 as p has, of
/// a norm that falls as it does for noise, which is the slowest.
double passes_norm_squared(std::int64_t p, double gram_norm_squared);

}  // namespace vindex::statistics
