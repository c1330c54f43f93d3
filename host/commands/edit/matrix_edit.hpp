// Owns the mathematics of edits, and an edit of one stored matrix, slab by slab. Each is a product
// of two thin factors that is added to a weight, W' = W + b a, in the logical orientation (out x
// in) whatever the storage. The factors are float32, as patches and adapters hold them, and are
// what is applied: an edit can be undone by what was written of it. Everything else is float64. New
// bytes are in the encoding that W has, and what the change did is measured on the weights as they
// are written.
#pragma once

#include "core/integers.hpp"
#include "decode/encode/rewrite_matrix.hpp"
#include "engine/units/source_watch.hpp"
#include "model/model_index.hpp"
#include "write/scratch_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
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

/// `matrix`, rows x cols, row-major, turned: cols x rows.
template <typename To, typename From>
std::vector<To> turned(const std::vector<From>& matrix, std::int64_t rows, std::int64_t cols) {
  std::vector<To> out(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      out[as_size(j * rows + i)] = static_cast<To>(matrix[as_size(i * cols + j)]);
    }
  }
  return out;
}

/// `values` over their norm. Errors: FormatError E-EDIT-DIRECTION naming `where` for what is not
/// finite or has no length.
std::vector<double> unit_vector(std::span<const double> values, const std::string& where);

template <typename Values>
bool all_finite(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); });
}

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
/// what to do; Stopped. Equations of more than 2048 sides are solved block by block, and their
/// last bits are those of the blocks.
LowRankEdit memit(const Matrix& keys, const Matrix& values, const Matrix* covariance, double ridge,
                  MemitCondition& condition, const std::stop_token& stop = {});

/// What the product b a is.
struct EditSpectrum {
  std::int64_t rank = 0;      ///< singular values above max(out, in) eps32 of the largest
  double norm = 0.0;          ///< Frobenius
  std::vector<double> sigma;  ///< descending, as many as the least of rows, cols and rank
};

/// By cpu::product_spectrum(), with its accuracy. Errors: DeviceError E-LAPACK where the iteration
/// does not converge; Stopped.
EditSpectrum spectrum_of(const LowRankEdit& edit, const std::stop_token& stop = {});

/// The factors of a whole matrix, rows x cols, row-major: it and an identity.
LowRankEdit factors_of(std::span<const double> product, std::int64_t rows, std::int64_t cols);

/// `edit` in factors of at most as many rows as its short side: of more, the product itself beside
/// an identity. Everything behind costs the square of the rank. Errors: Stopped.
LowRankEdit bounded(LowRankEdit edit, const std::stop_token& stop = {});

/// `edit` with its product times `scale`.
LowRankEdit scaled(LowRankEdit edit, double scale);

/// Inputs whose outputs are watched.
struct Probe {
  std::int64_t count = 0;
  std::vector<float> inputs;  ///< in x count, row-major
  std::vector<float> wanted;  ///< out x count: what (W' - W) X is meant to be; empty: nothing
};

/// What an edit did to the outputs of a probe: Frobenius norms.
struct ProbeChange {
  double before = 0.0;  ///< W X
  double change = 0.0;  ///< (W' - W) X
  double miss = 0.0;    ///< (W' - W) X - wanted
  double wanted = 0.0;
  /// Of change / before, if the probe's vectors are independent draws: the jackknife that leaves
  /// out one vector at a time. NaN for one vector, or where the others have no outputs.
  double standard_error = 0.0;
};

/// What an edit did to outputs of inputs x with E[x x^T] = C: roots of the expected square.
struct CovarianceChange {
  double before = 0.0;  ///< of W x: sqrt(tr(W C W^T)); NaN where C is not positive there
  double change = 0.0;  ///< of (W' - W) x
};

/// A direction that is watched: W v (right) or W^T u (left).
struct Direction {
  Side side = Side::kRight;
  std::vector<double> unit;
};

/// Norms of one matrix and its change; W' as written, after encoding.
struct MatrixChange {
  double norm = 0.0;           ///< W
  double edit_norm = 0.0;      ///< b a
  double written_norm = 0.0;   ///< W' - W
  double encoding_norm = 0.0;  ///< W' - (W + b a): what rounding to the encoding costs
  double arrived = 0.0;        ///< <W' - W, b a> / |b a|^2: 1 where all of the edit is there
  double direction_before = 0.0, direction_after = 0.0;  ///< of a watched direction
  std::vector<ProbeChange> probes;
  std::optional<CovarianceChange> covariance;
  decode::RewriteCounts counts;
  std::string before, after;  ///< SHA-256 of the decoded float32 weights, as stored, little-endian
};

/// Bytes of a matrix that changed: where they wait, and where they belong.
struct NewPart {
  std::int32_t tensor = -1;  ///< of ModelFiles::tensors
  std::uint64_t offset = 0;  ///< within that tensor
  std::uint64_t scratch = 0;
  std::uint64_t bytes = 0;
};

/// What edit_matrix() does beside adding.
struct MatrixEditOptions {
  std::span<const Probe> probes = {};
  const Matrix* covariance = nullptr;  ///< of inputs, in x in, symmetric
  const Direction* direction = nullptr;
  /// Where new bytes go; null: W' is not encoded, its figures are those of float32 weights.
  write::ScratchFile* scratch = nullptr;
  std::stop_token stop = {};
};

/// Adds `edit` to `matrix`. `parts` gets the new codes and scales. Nothing: stopped. Memory: some
/// 48 MiB beside factors, probes and covariance (of a transposed matrix also the outputs of probes
/// and, with a covariance, the matrix twice). Errors: those of rewrite_matrix(), ByteSource and
/// ScratchFile; FormatError E-EDIT-VALUES where W is not finite.
std::optional<MatrixChange> edit_matrix(engine::SourceWatch& watch,
                                        const model::MatrixRecord& matrix, const LowRankEdit& edit,
                                        const MatrixEditOptions& options,
                                        std::vector<NewPart>& parts);

/// W v (right) or W^T u (left), float64. Errors: those of ByteSource; FormatError E-EDIT-VALUES
/// where W is not finite.
std::vector<double> image_of(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                             const Direction& direction);

/// SHA-256 of the decoded weights, as MatrixChange::before.
std::string weights_digest(engine::SourceWatch& watch, const model::MatrixRecord& matrix);

/// A logical row (out) of W.
std::vector<double> weights_row(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                                std::int64_t row);

/// Whether rewrite_matrix() can encode what changes in `matrix`.
bool can_encode(engine::SourceWatch& watch, const model::MatrixRecord& matrix);

}  // namespace vindex::edit
