// Owns the purification of one matrix in memory: spectrum, gate, method, encoding, and what is
// kept of it.
#pragma once

#include "purify.hpp"

#include "write/scratch_file.hpp"

namespace vindex::purify {

/// What every matrix of a run shares. Null files: nothing is kept of that kind.
struct MatrixTools {
  Backend& backend;
  const PurifyOptions& options;
  write::ScratchFile* weights = nullptr;
  write::ScratchFile* factors = nullptr;
};

/// The outcome for `matrix`, stored plainly, whole, whose new bytes are of `out_type`. Errors:
/// those of Backend::measure() and ScratchFile.
PurifiedMatrix purify_matrix(const MatrixTools& tools, const decode::EncodedMatrix& matrix,
                             decode::ElementType out_type);

/// Upper bound of the bytes that purify_matrix() takes, its input included.
std::uint64_t purify_matrix_bytes(const Backend& backend, const PurifyOptions& options,
                                  const decode::Encoding& encoding, std::int64_t rows,
                                  std::int64_t cols);

}  // namespace vindex::purify
