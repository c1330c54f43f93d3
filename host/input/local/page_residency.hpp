// Owns asking what of a file lies in the page cache, and judging the answers: some systems give
// none, and layered file systems give one of a cache that holds nothing.
#pragma once

#include <cstdint>
#include <functional>

namespace vindex::input {

/// Of a range of a file.
enum class Residency : std::uint8_t {
  kResident,  ///< (nearly) all of it is in memory
  kAbsent,    ///< it is not
  kDirty,     ///< some of it is, and waits to be written: a direct read would wait for that
  kUnknown    ///< nobody says
};

/// Of cachestat(2) for the pages of a range.
struct CacheAnswer {
  bool answered = false;
  std::uint64_t pages = 0;  ///< that the range touches
  std::uint64_t cached = 0, dirty = 0, writeback = 0;
};

/// Of reading single bytes that may not wait.
enum class ByteAnswer : std::uint8_t {
  kAtOnce,  ///< all of them came
  kWaits,   ///< one would have to be read
  kNone     ///< such reads are not known here
};

/// What the answers say. `is_layered`: the file system keeps its pages with the files of another
/// one, or in a cache of its own, so that "nothing is cached" says nothing. `bytes` is asked only
/// where it is needed: it may make the kernel read ahead.
Residency judge_residency(const CacheAnswer& answer, bool is_layered,
                          const std::function<ByteAnswer()>& bytes);

/// Where [offset, offset + bytes) of the open file is now. Asks cachestat(2) (Linux 6.5; only the
/// owner of a file or who may write it is answered), else reads single bytes with RWF_NOWAIT. A
/// wrong answer costs time, never correctness.
Residency page_residency(int descriptor, std::uint64_t offset, std::uint64_t bytes);

}  // namespace vindex::input
