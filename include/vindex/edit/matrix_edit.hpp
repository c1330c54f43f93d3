// Owns an edit of one stored matrix, slab by slab: W' = W + b a, its bytes in the encoding that W
// has, and what the change did, measured on the weights as they are written.
#pragma once

#include <vindex/decode/rewrite_matrix.hpp>
#include <vindex/edit/low_rank_edit.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/run/source_watch.hpp>
#include <vindex/write/scratch_file.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::edit {

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
  const std::atomic<int>* stop = nullptr;
};

/// Adds `edit` to `matrix`. `parts` gets the new codes and scales. Nothing: stopped. Memory: some
/// 48 MiB beside factors, probes and covariance (of a transposed matrix also the outputs of probes
/// and, with a covariance, the matrix twice). Errors: those of rewrite_matrix(), ByteSource and
/// ScratchFile; FormatError E-EDIT-VALUES where W is not finite.
std::optional<MatrixChange> edit_matrix(run::SourceWatch& watch, const model::MatrixRecord& matrix,
                                        const LowRankEdit& edit, const MatrixEditOptions& options,
                                        std::vector<NewPart>& parts);

/// W v (right) or W^T u (left), float64. Errors: those of ByteSource; FormatError E-EDIT-VALUES
/// where W is not finite.
std::vector<double> image_of(run::SourceWatch& watch, const model::MatrixRecord& matrix,
                             const Direction& direction);

/// SHA-256 of the decoded weights, as MatrixChange::before.
std::string weights_digest(run::SourceWatch& watch, const model::MatrixRecord& matrix);

/// A logical row (out) of W.
std::vector<double> weights_row(run::SourceWatch& watch, const model::MatrixRecord& matrix,
                                std::int64_t row);

/// Whether rewrite_matrix() can encode what changes in `matrix`.
bool can_encode(run::SourceWatch& watch, const model::MatrixRecord& matrix);

}  // namespace vindex::edit
