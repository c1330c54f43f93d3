// Owns the view of a matrix over its stored parts, the input that reads them slab by slab while the
// matrix is measured, and the check that a file is still the one whose header was read.
#pragma once

#include <vindex/decode/encoding.hpp>
#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace vindex::run {

/// An input that reads `matrix` slab by slab from `files`; both must outlive it.
std::unique_ptr<measure::MatrixInput> make_streamed_input(const shard::ModelFiles& files,
                                                          const model::MatrixRecord& matrix);

/// Errors: SystemError E-INPUT-CHANGED (74) where the file behind `tensor` is not the one opened.
void check_unchanged(const shard::ModelFiles& files, std::int32_t tensor);

/// The source that holds stored tensor `tensor`.
shard::ByteSource& source_of(const shard::ModelFiles& files, std::int32_t tensor);

/// `part` into `into`, and check_unchanged().
void read_part(const shard::ModelFiles& files, const model::TensorPart& part,
               std::span<std::byte> into);

/// The whole matrix over bytes in memory, in the stored orientation; companion_bytes[i] belongs to
/// matrix.companions[i].
decode::EncodedMatrix encoded_view(const model::MatrixRecord& matrix, const std::byte* codes,
                                   std::span<const std::span<const std::byte>> companion_bytes);

/// Looks into the companions of the whole `view`, once their bytes are there. Errors: FormatError
/// E-COMPANION where group indices name no group.
void check_companions(const model::MatrixRecord& matrix, const decode::EncodedMatrix& view);

/// Key of the sign-flip null: first 8 bytes, little-endian, of SHA-256("tensor#slice").
std::uint64_t sign_flip_key(const model::MatrixRecord& matrix);

}  // namespace vindex::run
