// Owns reading ranges of a file whose blocks have digests: no byte is handed on before the block
// that it is in was compared with its digest.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::commands {

/// A range of a file in blocks of `block_bytes`, the last one shorter: block_digest() of each.
struct VerifiedRange {
  std::uint64_t first = 0, bytes = 0;
  std::uint64_t block_bytes = 1;
  std::vector<std::int64_t> digests;
};

/// `source` as far as `ranges` go; nothing else of it can be read. A read costs the whole blocks
/// that it touches. Has no descriptor: readers that bypass read_many() would bypass the digests.
/// Errors of reading: those of `source`; FormatError E-RESULTS-DATA where a block is another than
/// its digest is of.
std::unique_ptr<ByteSource> make_verified_source(std::unique_ptr<ByteSource> source,
                                                 std::vector<VerifiedRange> ranges);

}  // namespace vindex::commands
