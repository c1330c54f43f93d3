// Owns the view of a matrix over its stored parts, and the input that reads them slab by slab while
// the matrix is measured.
#pragma once

#include "source_watch.hpp"

#include "backend/backend.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

namespace vindex::engine {

class UnitStream;

/// An input that reads `matrix` slab by slab from the files of `watch`; both must outlive it.
/// A caller that believes its numbers asks the watch first. No slab is read after a stop: Stopped.
std::unique_ptr<MatrixInput> make_streamed_input(SourceWatch& watch,
                                                 const model::MatrixRecord& matrix,
                                                 std::stop_token stop = {});

/// The same where all rows are asked for once, from the first to the last, a few at a time:
/// windows of them are read ahead (engine/units/read_ahead_window.hpp), from here on. `unit`
/// outlives it.
std::unique_ptr<MatrixInput> make_passing_input(UnitStream& unit, SourceWatch& watch,
                                                const model::MatrixRecord& matrix);

/// The source that holds stored tensor `tensor`.
ByteSource& source_of(const input::ModelFiles& files, std::int32_t tensor);

/// A plainly stored tensor that is no matrix (a norm, a convolution) as rows of its last side.
model::MatrixRecord plain_record(const input::ModelFiles& files, const model::TensorRecord& tensor);

/// Reads `part` into `into`.
void read_part(SourceWatch& watch, const model::TensorPart& part, std::span<std::byte> into);

/// The whole matrix over bytes in memory, in the stored orientation; companion_bytes[i] belongs to
/// matrix.companions[i].
decode::EncodedMatrix encoded_view(const model::MatrixRecord& matrix, const std::byte* codes,
                                   std::span<const std::span<const std::byte>> companion_bytes);

/// Looks into the companions of the whole `view`, once their bytes are there. Errors: FormatError
/// E-COMPANION where group indices name no group.
void check_companions(const model::MatrixRecord& matrix, const decode::EncodedMatrix& view);

/// Key of the sign-flip null: first 8 bytes, little-endian, of SHA-256("tensor#slice").
std::uint64_t sign_flip_key(const model::MatrixRecord& matrix);

}  // namespace vindex::engine
