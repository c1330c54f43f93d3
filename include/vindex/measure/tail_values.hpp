// Owns what becomes of the smallest singular values that a step kTail found on a subspace: which
// of a spectrum's values they replace, and what error each of them answers for. Pure arithmetic,
// shared by back ends.
//
// With an orthonormal basis whose Ritz vectors v have W^T W v = s^2 v + r, some eigenvalue of
// W^T W is within |r| of s^2 (Kato). Where the smallest Ritz values are the smallest of the
// spectrum, to what that is known to, vectors beside these settled ones belong to eigenvalues above
// the next, and |r|^2 over the distance to it bounds the error too (Temple).
#pragma once

#include <vindex/measure/judgement.hpp>

#include <cstdint>
#include <span>

namespace vindex::measure {

/// One pass over the weights on a subspace near the smallest singular vectors. Arrays descend.
struct TailBasis {
  std::span<const double> sigma = {};      ///< singular values of W on it
  std::span<const double> residuals = {};  ///< |W^T W v - s^2 v| of each
  std::int64_t max_settled = 0;            ///< of the smallest; the others guard them
  /// Of each s^2, by the arithmetic of the pass; empty: nothing worth adding.
  std::span<const double> square_errors = {};
};

/// Puts the last `lost` values of `before` in `found` again, and `tail_errors`; all others are
/// those of `before`. False where the basis contradicts `before`, a spectrum with a known rounding:
/// `found` is then `before` and has no tail_errors.
bool take_tail(const TailBasis& basis, std::int64_t lost, const Finding& before, Finding& found);

}  // namespace vindex::measure
