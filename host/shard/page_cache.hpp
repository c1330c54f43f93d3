// Owns the question whether a range of a file lies in the page cache: such bytes are copied, the
// others are read past the cache.
#pragma once

#include <cstdint>

namespace vindex::shard {

/// True where (nearly) all of [offset, offset + bytes) of the open file is in memory now. Asks
/// cachestat(2) (Linux 6.5; only the owner of a file or who may write it is answered), else reads
/// single bytes with RWF_NOWAIT. Where neither answers (some network file systems): false. A wrong
/// answer costs time, never correctness.
bool in_page_cache(int descriptor, std::uint64_t offset, std::uint64_t bytes);

}  // namespace vindex::shard
