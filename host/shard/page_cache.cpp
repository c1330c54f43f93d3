// Owns asking the kernel: cachestat where it is known, else a read that may not wait.
#include "page_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace vindex::shard {

namespace {

/// Linux gave it one number on every architecture; Debian 12's headers are older than the call.
#ifdef SYS_cachestat
constexpr long kCachestat = SYS_cachestat;
#else
constexpr long kCachestat = 451;
#endif

/// As in linux/mman.h: struct cachestat_range and struct cachestat.
struct CacheRange {
  std::uint64_t offset, bytes;
};
struct CacheCounts {
  std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
};

constexpr std::uint64_t kProbeStep = 1U << 20U;

/// By single bytes, one per mebibyte and the last one.
bool bytes_answer_at_once(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  std::byte byte{};
  iovec into{&byte, 1};
  const std::uint64_t last = offset + bytes - 1;
  for (std::uint64_t at = offset;; at = std::min(at + kProbeStep, last)) {
    if (::preadv2(descriptor, &into, 1, static_cast<off_t>(at), RWF_NOWAIT) != 1) {
      return false;
    }
    if (at == last) {
      return true;
    }
  }
}

}  // namespace

bool in_page_cache(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) {
    return true;
  }
  const CacheRange range{offset, bytes};
  CacheCounts counts{};
  if (::syscall(kCachestat, descriptor, &range, &counts, 0) != 0) {
    return bytes_answer_at_once(descriptor, offset, bytes);
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t pages = (offset + bytes - 1) / page - offset / page + 1;
  // A few missing pages are cheaper to fault in than the rest is to read again from the disk.
  return counts.cached >= pages - pages / 16;
}

}  // namespace vindex::shard
