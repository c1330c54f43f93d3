// Owns asking what lies in the page cache, opening descriptors for direct reads, and noting which
// file systems refuse.
#include "direct_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

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

int ReadCalls::open_direct(int descriptor) {
  // Through /proc the same file is opened even where its name now leads to another one.
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  const int direct = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  return direct >= 0 ? direct : -errno;
}

std::int64_t ReadCalls::read(int descriptor, std::byte* into, std::size_t bytes,
                             std::uint64_t offset) {
  return ::pread(descriptor, into, bytes, static_cast<off_t>(offset));
}

bool ReadCalls::cached(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  return in_page_cache(descriptor, offset, bytes);
}

bool says_refused(std::int64_t error) { return error == EINVAL || error == EOPNOTSUPP; }

DirectFiles::~DirectFiles() {
  for (const int descriptor : retired_) {
    ::close(descriptor);
  }
  for (const auto& [source, file] : files_) {
    if (file.descriptor >= 0) {
      ::close(file.descriptor);
    }
  }
}

int DirectFiles::descriptor(ByteSource& source) {
  const std::lock_guard lock(mutex_);
  File& file = files_[&source];
  if (!file.asked) {
    file.asked = true;
    file.descriptor = calls_.open_direct(source.descriptor());
    if (file.descriptor < 0) {
      note(source, -file.descriptor);
    }
  }
  return file.descriptor;
}

void DirectFiles::refuse(ByteSource& source, int error) {
  const std::lock_guard lock(mutex_);
  File& file = files_[&source];
  if (file.descriptor >= 0) {
    retired_.push_back(std::exchange(file.descriptor, -1));
    note(source, error);
  }
}

std::vector<std::string> DirectFiles::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

void DirectFiles::note(const ByteSource& source, int error) {
  refused_.push_back(fmt::format("{} ({})", source.name(), std::strerror(error)));
}

}  // namespace vindex::input
