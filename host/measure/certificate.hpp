// Owns the certified bounds of `fast` mode: what Ritz pairs and one Cholesky factorisation prove
// about the largest eigenvalues of W^T W.
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
// orthogonal to V has x^T G x < tau0 |x|^2. G is the float32 Gram, so tau = tau0 + |G - W^T W|.
#pragma once

#include "projection.hpp"
#include "workspace.hpp"

#include <vindex/measure/backend.hpp>

#include <cstdint>

namespace vindex::measure {

/// Bound of |G - W^T W|_2 for a Gram summed in float32 over `length` products at a time and then
/// over the chunks: (length + chunks + 4) 2^-24 |W|_F^2. The 4 covers scales folded in afterwards.
double gram32_error_bound(std::int64_t long_side, std::int64_t length, double sum_squares);

/// Bytes that certified_bounds() takes.
std::uint64_t certificate_bytes(std::int64_t p, std::int64_t count);

/// Bounds by the argument above; values NaN where nothing could be proved. `gram` (upper triangle)
/// and `next_value` (estimate of the largest eigenvalue beyond `projection`) are in the scale of
/// the Gram, which is 2^(2 scale_exponent) times that of the weights; `gram_error` likewise.
SpectrumBounds certified_bounds(const float* gram, const Projection& projection, double next_value,
                                double gram_error, double sum_squares, std::int64_t long_side,
                                Workspace& workspace);

/// Bounds when all values are known to within `error` each (of s^2).
SpectrumBounds bounds_of_spectrum(std::span<const double> sigma, double error, double sum_squares);

/// True where var_at_k for k <= 64 and the stable rank are known to 1e-5.
bool is_tight(const SpectrumBounds& bounds);

}  // namespace vindex::measure
