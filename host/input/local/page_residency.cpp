// Owns the system calls that ask for the page cache.
#include "page_residency.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace vindex::input {

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

CacheAnswer ask_cachestat(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  const CacheRange range{offset, bytes};
  CacheCounts counts{};
  if (::syscall(kCachestat, descriptor, &range, &counts, 0) != 0) {
    return {};
  }
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return {.answered = true,
          .pages = (offset + bytes - 1) / page - offset / page + 1,
          .cached = counts.cached,
          .dirty = counts.dirty,
          .writeback = counts.writeback};
}

/// One byte per mebibyte and the last one.
ByteAnswer ask_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  std::byte byte{};
  iovec into{&byte, 1};
  const std::uint64_t last = offset + bytes - 1;
  for (std::uint64_t at = offset;; at = std::min(at + kProbeStep, last)) {
    if (::preadv2(descriptor, &into, 1, static_cast<off_t>(at), RWF_NOWAIT) != 1) {
      return errno == EAGAIN ? ByteAnswer::kWaits : ByteAnswer::kNone;
    }
    if (at == last) {
      return ByteAnswer::kAtOnce;
    }
  }
}

/// overlayfs (the files of most containers) and FUSE with passthrough keep pages with the file
/// below, 9p may keep none, ZFS has a cache of its own.
bool is_layered(int descriptor) {
  constexpr std::uint32_t kOverlay = 0x794C7630;
  constexpr std::uint32_t kFuse = 0x65735546;
  constexpr std::uint32_t k9p = 0x01021997;
  constexpr std::uint32_t kZfs = 0x2FC12FC1;
  struct statfs status {};
  if (::fstatfs(descriptor, &status) != 0) {
    return true;
  }
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return type == kOverlay || type == kFuse || type == k9p || type == kZfs;
}

Residency said_by_bytes(ByteAnswer answer) {
  return answer == ByteAnswer::kAtOnce  ? Residency::kResident
         : answer == ByteAnswer::kWaits ? Residency::kAbsent
                                        : Residency::kUnknown;
}

}  // namespace

Residency judge_residency(const CacheAnswer& answer, bool is_layered,
                          const std::function<ByteAnswer()>& bytes) {
  if (!answer.answered) {
    return said_by_bytes(bytes());
  }
  // A few missing pages are cheaper to fault in than the rest is to read again from the disk.
  if (answer.cached >= answer.pages - answer.pages / 16) {
    return Residency::kResident;
  }
  if (answer.dirty + answer.writeback > 0) {
    return Residency::kDirty;
  }
  return is_layered && answer.cached == 0 ? said_by_bytes(bytes()) : Residency::kAbsent;
}

Residency page_residency(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) {
    return Residency::kResident;
  }
  const CacheAnswer answer = ask_cachestat(descriptor, offset, bytes);
  return judge_residency(answer, answer.answered && answer.cached == 0 && is_layered(descriptor),
                         [&] { return ask_bytes(descriptor, offset, bytes); });
}

}  // namespace vindex::input
