// Owns the last step to singular vectors: columns in float64, as projection leaves them, to unit
// float32 vectors with signs, gaps, and the residuals of what is stored.
//
// Rounding moves v by e and u by f. With all weights in float64 the stored pair leaves
//   W (v + e) - s (u + f)    = W e - s f
//   W^T (u + f) - s (v + e)  = r / s + W^T f - s e,   r = W^T W v - s^2 v
// The weights are not at hand any more. But what W does with the part of e and f within the leading
// vectors is known, and that is where it does most; of the rest, W acts on a direction of rounding
// as on a random one: by the root mean square of the other singular values.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <span>

namespace vindex::statistics {

/// Of W in the orientation short x long (p <= n): all arrays column-major, columns by descending
/// value.
struct TripletInput {
  std::span<const double> basis;      ///< p x count, orthonormal: v
  std::span<const double> image;      ///< n x count: W v
  std::span<const double> residuals;  ///< p x count: r = W^T W v - s^2 v
  double sum_squares = 0.0;           ///< of W: |W|_F^2
  std::int64_t short_side = 0, long_side = 0, count = 0;
  bool short_is_right = true;       ///< v is the right vector of the matrix as it is meant
  std::int32_t scale_exponent = 0;  ///< W here is 2^e times the weights
};

/// The first `wanted` triplets with s > 0. residual is the larger of |A v - s u| and |A^T u - s v|
/// of the float32 vectors, within a few per cent (see above); gap the distance to the nearest other
/// of the `count` values. Vectors inside a cluster are a basis of its subspace, no more: the gap
/// says so. Signs: docs/decisions/spectra-and-errors.md. Cost: 8 (p + n) min(count, 32) flop for
/// each vector.
SingularVectors singular_triplets(const TripletInput& input, std::int32_t wanted);

/// How many columns to look for, so that the last one's gap is known.
std::int64_t triplet_columns(std::int64_t short_side, std::int32_t wanted);
/// Up to some size, or where a large share of all vectors is asked for, a dense solver is used.
bool are_dense_vectors(std::int64_t short_side, std::int64_t columns);
/// Columns of the block that an iteration for `columns` vectors works on.
std::int64_t vector_block_width(std::int64_t short_side, std::int64_t columns);
/// True where a float32 iteration has nothing left to gain for the first `columns` Ritz pairs.
bool is_enough_for_vectors(std::span<const double> values, std::span<const double> residuals,
                           std::int64_t columns);

}  // namespace vindex::statistics
