// Owns the certified bounds of `fast` mode as far as they are plain arithmetic: what a back end has
// to find out about a matrix, and what follows from it.
//
// Let V be orthonormal (p x m), T = diag(Ritz values t_1 >= ... >= t_m) and R = W^T W V - V T.
// Lower: sum_{i<=k} t_i <= sum_{i<=k} l_i (Ky Fan).
// Upper: in a basis [V, V'] the matrix is [[T, E^T], [E, C]] with E^T E = R^T R. Let tau >= the
// largest eigenvalue of C. For mu > tau, C - mu is negative definite, so by Sylvester's law on the
// Schur complement as many eigenvalues exceed mu as T - mu + E^T (mu - C)^-1 E has positive ones;
// that matrix is at most T - mu + R^T R / (mu - tau). Hence, as t_k <= l_k and 1/(mu - tau) falls
// with mu, for t_k > tau and every i <= k
//     l_i <= the i-th eigenvalue of T + R^T R / (t_k - tau).
// tau: where tau0 I - G + V T V^T is positive definite (a float64 Cholesky factorisation that
// succeeds, with the shift of Rump, "Verification of positive definiteness", BIT 2006), every x
// orthogonal to V has x^T G x < tau0 |x|^2. G is the Gram in memory, so tau = tau0 + |G - W^T W|.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

/// Values that `fast` keeps and bounds.
inline constexpr std::int64_t kFastValues = 64;
/// Ritz vectors that enter the proof, and those that only guard them. Noise needs the distance from
/// the 64th to the 112th eigenvalue, since the error bound of a float32 Gram eats a part of it.
inline constexpr std::int64_t kProvedVectors = 112;
inline constexpr std::int64_t kBlockWidth = 128;
/// Up to this short side the whole float64 spectrum costs less than the iteration and its proof.
inline constexpr std::int64_t kFullSpectrumSize = 512;

/// All values in the scale of the Gram matrix, which is 2^(2 e) times that of the weights; bounds
/// are ratios and have none.
struct CertificateInput {
  std::span<const double> values;  ///< t_1 >= ... >= t_m, m > 64, of W^T W by float64 products
  double next_value = 0.0;         ///< estimate of the largest eigenvalue beyond V
  double gram_error = 0.0;         ///< bound of |G - W^T W|_2
  double sum_squares = 0.0;        ///< |W|_F^2
  std::int64_t short_side = 0, long_side = 0;
};

/// Places for tau0 - gram_error that are worth a factorisation, best first. Empty where none can be
/// low enough.
std::vector<double> complement_candidates(const CertificateInput& input);
/// What tau0 I - G + V T V^T must lose on its diagonal so that a successful Cholesky factorisation
/// in float64 proves it definite: rounding of the entries and of the factorisation, at most
/// 2 (p + m + 4) eps64 trace.
double definiteness_shift(std::int64_t short_side, std::span<const double> values, double tau);

/// k of the entry `index` of var_at_k, index < bounded_count().
std::int64_t bounded_k(std::size_t index);
std::size_t bounded_count();
/// t_k - tau less rounding: what R^T R is divided by for entry `index`. `proved` is the candidate
/// that passed.
double certificate_gap(const CertificateInput& input, double proved, std::size_t index);

/// Of the eigenvalues of T + R^T R / gap: the largest, and the sum of the largest k.
struct UpperSums {
  double top = 0.0;
  double sum = 0.0;
};
/// `upper`: one per entry, by certificate_gap(). NaN beyond k = 64.
SpectrumBounds certified_bounds(const CertificateInput& input, std::span<const UpperSums> upper);

/// Everything NaN: nothing was proved.
SpectrumBounds unproved_bounds();
/// Errors of squares: of each value its own, and one that may lie on any but on one alone.
struct SquareErrors {
  std::vector<double> each = {};
  double once = 0.0;
};

/// Bounds when every value's square is known to within its error.
SpectrumBounds bounds_of_spectrum(std::span<const double> sigma, const SquareErrors& errors,
                                  double sum_squares);

/// Bounds when every value s^2 lies between `lower` and `upper` (descending) to within its error.
SpectrumBounds bounds_between(std::span<const double> lower, std::span<const double> upper,
                              const SquareErrors& errors, double sum_squares);

/// True where var_at_k for k <= 64 and the stable rank are known to 1e-5.
bool is_tight(const SpectrumBounds& bounds);

/// True where Ritz pairs of a block (descending; kBlockWidth of them) are good enough that the
/// bounds will be tight, if the complement is proved.
bool is_enough_for_bounds(std::span<const double> values, std::span<const double> residuals,
                          double gram_error, double sum_squares);

}  // namespace vindex::statistics
