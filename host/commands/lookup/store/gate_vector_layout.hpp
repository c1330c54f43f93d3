// Owns where a file of gate vectors (schema vindex-gate-vectors) has what, beside its table /gate/:
//   /feature/vectors           [feature, input] float16, bfloat16 or float32, one after the other
//   /feature/block_sha256      [block] int64, of blocks of block_rows() rows: block_digest()
//   /feature/norm              [feature] float64, of the decoded weights; NaN: not finite
//   /feature/gate_down_cosine  [feature] float64; NaN where there is no down_proj
//   /feature/token             [feature, rank] int32, entries that its column of down_proj raises,
//                              the largest first; -1: none
//   /feature/token_score       [feature, rank] float64
//   /embedding/vectors, block_sha256   the input embedding, likewise; scale [1] float64
//   /vocabulary/bytes int8, end int64, present int8   entries as spelt, one after the other
// A group is absent where the model has no such thing. Vectors are contiguous and unfiltered, so
// that a lookup reads them as it reads weights; everything else is chunked with checksums.
#pragma once

#include "model/vocabulary/vocabulary.hpp"
#include "results/hdf5/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands {

/// Rows of a chunk of /feature/: a batch of features that is written at once is a multiple of it.
inline constexpr std::int64_t kGateChunkRows = 1024;

/// Rows of vectors that one digest is of: the largest power of two, at most kGateChunkRows, whose
/// rows take at most 256 KiB; 1 of longer ones.
std::int64_t block_rows(std::uint64_t row_bytes);
/// The first 8 bytes, little-endian, of the SHA-256 of the bytes of a block.
std::int64_t block_digest(std::span<const std::byte> rows);

/// "/feature" or "/embedding" as found.
struct StoredVectors {
  results::h5::Type type = results::h5::Type::kFloat32;
  std::uint64_t rows = 0, cols = 0;
  std::uint64_t place = 0;  ///< of the first byte in the file
  std::uint64_t row_bytes() const { return cols * results::h5::type_bytes(type); }
  std::uint64_t bytes() const { return rows * row_bytes(); }
  std::vector<std::int64_t> digests = {};
};
/// `file_bytes`: size of the file. Errors: FormatError where they are not as above.
StoredVectors stored_vectors(const results::h5::File& file, const std::string& group,
                             std::uint64_t file_bytes);

void write_vocabulary(results::h5::File& file, const model::Vocabulary& vocabulary);
/// Nothing where the file has none. Errors: FormatError.
std::optional<model::Vocabulary> stored_vocabulary(const results::h5::File& file);

/// Attributes of the root, all of them text: sealed.
inline constexpr const char* kFeatureRoleAttribute = "features_of";  ///< "gate_proj", "up_proj"
inline constexpr const char* kScaleSourceAttribute = "embedding_scale_source";
inline constexpr const char* kNoTokensAttribute = "tokens_reason";  ///< why none are named, or ""

}  // namespace vindex::commands
