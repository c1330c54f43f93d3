// Owns the input that reads a matrix slab by slab while it is measured.
#pragma once

#include "loaded_unit.hpp"
#include "source_watch.hpp"
#include "stored_parts.hpp"

#include "backend/backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <memory>
#include <stop_token>

namespace vindex::engine {

/// An input that reads `matrix` slab by slab from the files of `watch`; both must outlive it.
/// A caller that believes its numbers asks the watch first. No slab is read after a stop: Stopped.
std::unique_ptr<MatrixInput> make_streamed_input(SourceWatch& watch,
                                                 const model::MatrixRecord& matrix,
                                                 std::stop_token stop = {});

/// The same where all rows are asked for once, from the first to the last, a few at a time:
/// windows of them are read ahead (engine/units/read_ahead_window.hpp), from here on. `unit`
/// outlives it.
std::unique_ptr<MatrixInput> make_passing_input(ReadingUnit& unit, SourceWatch& watch,
                                                const model::MatrixRecord& matrix);

}  // namespace vindex::engine
