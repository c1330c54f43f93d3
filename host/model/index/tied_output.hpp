// Owns whether a stored output matrix is the embedding that the configuration ties it to: some
// savers write both, and where they differ loaders use the stored one.
#pragma once
#include "model/model_index.hpp"

namespace vindex::model {

/// Of a model whose configuration ties its output to its embedding: drops the output's row where
/// its bytes are those of the embedding, and keeps it where they are not; W-TIED says which. Reads
/// both as far as `extent` asks, up to the first difference; memory: 16 MiB. Errors: those of the
/// sources.
void judge_tied_output(const input::ModelFiles& files, TiedOutput extent, std::int32_t threads,
                       ModelIndex& index);

}  // namespace vindex::model
