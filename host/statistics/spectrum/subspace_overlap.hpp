// Owns how near two subspaces are that singular vectors span: the share they have in common and the
// angles between them.
//
// Source of the angles: Bjorck and Golub, "Numerical methods for computing angles between linear
// subspaces", Math. Comp. 27 (1973): cosines are the singular values of Q_A^T Q_B, sines come from
// what is left of Q_B beside Q_A, so that small and large angles are equally good.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::statistics {

/// Most directions that are compared.
inline constexpr std::int32_t kMaxSubspace = 256;

struct SubspaceOverlap {
  double overlap = 0.0;        ///< norm(Q_A^T Q_B)_F^2 / count: 0 nothing in common, 1 equal
  std::vector<double> angles;  ///< principal angles in degrees, ascending
};

/// Of the spans of `count` vectors each of `length` numbers, one after the other, nearly
/// orthonormal (as back ends give them; they are made orthonormal in float64 first). Nothing where
/// vectors of a side depend on each other: they span no subspace of `count` directions. Cost: 8
/// length count^2 flop and a Jacobi iteration of count^3. Errors: expects() where there are more
/// vectors than numbers in one.
std::optional<SubspaceOverlap> subspace_overlap(std::span<const float> a, std::span<const float> b,
                                                std::int64_t count, std::int64_t length);

/// The overlap of two independent, uniformly random subspaces of `count` directions in `length`.
struct OverlapNull {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double deviation = std::numeric_limits<double>::quiet_NaN();
};

/// Mean K/n and standard deviation (1 - K/n) sqrt(2 / ((n - 1)(n + 2))), from the second moments of
/// a random projection (James, "Distributions of matrix variates and latent roots", Ann. Math.
/// Statist. 35 (1964)); for K = 1 those of a squared cosine. NaN where K is none of 1 .. n.
OverlapNull subspace_overlap_null(std::int64_t count, std::int64_t length);

/// How well the first `count` directions of a matrix are set apart from the others.
struct SubspaceGap {
  double relative = 0.0;  ///< (s_K - s_(K+1)) / s_K, s_(K+1) = 0 where K is the short side; or NaN
  std::string error;      ///< why they span no definite subspace; empty where they do
  bool is_found = false;  ///< they are singular vectors of values above zero, all `count` of them
};

/// Of a measured report with `count` or more vectors asked for, of a matrix whose short side is
/// `short_side`. A subspace is definite where value `count` is above zero and the gap behind it
/// above nothing by more than what the values and vectors are off by (Davis and Kahan: the angle of
/// error is residual / gap).
SubspaceGap subspace_gap(const MatrixReport& report, std::int64_t count, std::int64_t short_side);

}  // namespace vindex::statistics
