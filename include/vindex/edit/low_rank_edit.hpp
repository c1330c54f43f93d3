// Owns the mathematics of edits: each is a product of two thin factors that is added to a weight,
// W' = W + b a, in the logical orientation (out x in) whatever the storage. The factors are
// float32, as patches and adapters hold them, and are what is applied: an edit can be undone by
// what was written of it. Everything else is float64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::edit {

/// The side of W on which a direction lies: inputs (right) or outputs (left).
enum class Side : std::uint8_t { kRight, kLeft };

struct LowRankEdit {
  std::int64_t rows = 0;  ///< out
  std::int64_t cols = 0;  ///< in
  std::int64_t rank = 0;  ///< of the factors; the product may have less
  std::vector<float> a;   ///< rank x cols, row-major
  std::vector<float> b;   ///< rows x rank, row-major
};

/// A matrix in memory, row-major.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;
};

/// `values` over their norm. Errors: FormatError E-EDIT-DIRECTION naming `where` for what is not
/// finite or has no length.
std::vector<double> unit_vector(std::span<const double> values, const std::string& where);

/// W - alpha W v v^T (right) or W - alpha u u^T W (left): `direction` is the unit vector, `image`
/// W v or W^T u.
LowRankEdit deletion(Side side, std::span<const double> direction, std::span<const double> image,
                     double alpha);

/// W + d k^T / (k . k). Errors: FormatError E-EDIT-DIRECTION for a key without length.
LowRankEdit insertion(std::span<const double> key, std::span<const double> value);

/// How well the equations of a MEMIT edit were conditioned.
struct MemitCondition {
  double keys = 1.0;  ///< of K^T C^-1 K + ridge I: largest over smallest eigenvalue
  /// Of C, in the 1-norm, which is not below the largest over the smallest eigenvalue and at most
  /// `in` times it; LAPACK's estimate (pocon), seldom below a third of the true one.
  double covariance = 1.0;
};

/// Refuses a covariance that is not of `side` inputs; `where` names it. Errors: FormatError
/// E-EDIT-SHAPE.
void require_covariance_sides(std::int64_t rows, std::int64_t cols, std::int64_t side,
                              const std::string& where);

/// Refuses other counts of keys and of values (columns). Errors: FormatError E-EDIT-SHAPE.
void require_pairs(std::int64_t keys, std::int64_t values);

/// Refuses what is no covariance of `side` inputs; `where` names it. Errors: FormatError
/// E-EDIT-SHAPE; E-EDIT-VALUES for what is not finite or not symmetric.
void require_covariance(const Matrix& covariance, std::int64_t side, const std::string& where);

/// W + D (K^T C^-1 K + ridge I)^-1 K^T C^-1 for keys K (in x n) and values D (out x n); no
/// covariance: C = I. Solved by Cholesky factors in float64, of the lesser of n and `in` sides:
/// more keys than inputs go through the equal D M^T (M M^T + ridge I)^-1 L^-1, C = L L^T, L M = K.
/// Source: Meng et al., "Mass-editing memory in a transformer", ICLR 2023, eq. 14. Errors:
/// UsageError E-USAGE for a ridge that is negative or not finite; FormatError E-EDIT-SHAPE where
/// sides disagree, E-EDIT-VALUES for what is not finite; those of require_covariance();
/// ConfigurationError E-EDIT-SINGULAR (78) where the equations have no solution in float64, with
/// what to do.
LowRankEdit memit(const Matrix& keys, const Matrix& values, const Matrix* covariance, double ridge,
                  MemitCondition& condition);

/// What the product b a is.
struct EditSpectrum {
  std::int64_t rank = 0;      ///< singular values above max(out, in) eps32 of the largest
  double norm = 0.0;          ///< Frobenius
  std::vector<double> sigma;  ///< descending, as many as the factors have rows
};

/// From the Gram matrices of the factors: values below 1e-8 of the largest are rounding.
EditSpectrum spectrum_of(const LowRankEdit& edit);

/// The factors of a whole matrix, rows x cols, row-major: it and an identity.
LowRankEdit factors_of(std::span<const double> product, std::int64_t rows, std::int64_t cols);

/// `edit` in factors of at most as many rows as its short side: of more, the product itself beside
/// an identity. Everything behind costs the square of the rank.
LowRankEdit bounded(LowRankEdit edit);

/// `edit` with its product times `scale`.
LowRankEdit scaled(LowRankEdit edit, double scale);

}  // namespace vindex::edit
