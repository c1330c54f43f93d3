// Owns what the Haar pyramid of a sequence of weights says: how its energy changes with scale, and
// whether large changes at one scale lie where they are large at the next, each with the values
// that independent normal weights give.
//
// With d_j the coefficients of the orthonormal Haar transform at scale s = 2^j, N_j of them, for
// j = 1 ... J while N_j >= 64:
//   I(j)      = -log2 mean d_j^2
//   z_modulus = slope of I over j = log2 s by least squares with weights N_j
//   csci      = mean over j < J of the correlation of abs(d_j) with abs(d_j+1) of the parent,
//               weighted by the pairs
// Of independent normal weights the d_j are independent and N_j mean d_j^2 / sigma^2 is
// chi-square, so that
//   E I(j)   = -log2 sigma^2 - (psi(N_j/2) - ln(N_j/2)) / ln 2
//   var I(j) = psi'(N_j/2) / ln^2 2
// are exact, and so are mean and variance of the slope; csci has mean 0 and variance one over the
// number of pairs. Weights of another law, or of unequal sizes, have another csci without any order
// among them. Beside it are what random signs leave of it, for the same magnitudes where they are,
// and what a permutation of the weights does (permuted_scales.hpp).
#pragma once

#include "core/constants.hpp"

#include <cstdint>
#include <span>

namespace vindex::statistics {

/// Least number of coefficients of a level that counts, and of weights that have two such levels.
inline constexpr std::int64_t kLeastCoefficients = 64;
inline constexpr std::int64_t kLeastScaled = 4 * kLeastCoefficients;

struct ScaleFigures {
  double z_modulus = kNaN;
  double z_modulus_null = kNaN;      ///< mean for independent normal weights: below 0.1 null_sd
  double z_modulus_null_sd = kNaN;   ///< standard deviation for them
  double csci = kNaN;                ///< null 0 for normal weights
  double csci_null_sd = kNaN;        ///< for them
  double z_modulus_signflip = kNaN;  ///< of the same magnitudes with random signs
  double csci_signflip = kNaN;
  double csci_permuted = kNaN;     ///< of the same values in no order: mean of permutations
  double csci_permuted_sd = kNaN;  ///< standard deviation over them
};

struct HaarLevel;

/// Nulls of a sequence of `size` weights, the rest NaN; all NaN for fewer than kLeastScaled.
ScaleFigures scale_nulls(std::int64_t size);

/// `levels`: HaarPyramid::levels() of `size` weights. z_modulus is NaN where all differences of a
/// level are 0, csci where all magnitudes of a level are equal.
ScaleFigures scale_figures(std::int64_t size, std::span<const HaarLevel> levels);

/// Why z_modulus or csci of `size` finite weights is NaN; empty where neither is.
const char* missing_scales(std::int64_t size, const ScaleFigures& figures);

/// Of several sequences, added one by one: means weighted by their sizes, with what that leaves of
/// the standard deviations. NaN where one has none.
class MeanScales {
 public:
  void add(std::int64_t size, const ScaleFigures& figures);
  /// NaN of none.
  ScaleFigures mean() const;

 private:
  double weight_ = 0.0;
  ScaleFigures sums_ = {0.0, 0.0, 0.0, 0.0, 0.0,
                        0.0, 0.0, 0.0, 0.0};  ///< of the deviations: of their squares
};

}  // namespace vindex::statistics
