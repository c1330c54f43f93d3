// Owns the parts that a matrix is stored in: their sources, their bytes, and the view of the matrix
// over them.
#pragma once

#include "source_watch.hpp"

#include "backend/backend.hpp"
#include "decode/encoding/encoding.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::engine {

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
