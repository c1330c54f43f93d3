// Owns an edit of one stored matrix, slab by slab. New bytes are in the encoding that W has, and
// what the change did is measured on the weights as they are written.
#pragma once

#include "low_rank_edit.hpp"
#include "memit.hpp"
#include "slab_sums.hpp"

#include "decode/encode/rewrite_matrix.hpp"
#include "engine/units/source_watch.hpp"
#include "model/model_index.hpp"
#include "write/scratch_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::edit {

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
