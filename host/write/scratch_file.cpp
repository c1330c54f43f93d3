// Owns making the nameless file, appending, mapping, and errors of a full disk.
#include "scratch_file.hpp"

#include "core/files/atomic_file.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace vindex::write {

ScratchFile::ScratchFile(std::string folder)
    : folder_(std::move(folder)), descriptor_(open_nameless_file(folder_, "E-SCRATCH")) {}

ScratchFile::~ScratchFile() {
  if (!mapping_.empty()) {
    ::munmap(const_cast<std::byte*>(mapping_.data()), mapping_.size());
  }
  ::close(descriptor_);
}

std::uint64_t ScratchFile::append(std::span<const std::byte> bytes) {
  const std::uint64_t start = end_.fetch_add(bytes.size());
  std::uint64_t offset = start;
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      fail(written < 0 ? errno : ENOSPC, "the scratch file cannot be written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return start;
}

void ScratchFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      fail(got < 0 ? errno : EIO, "the scratch file cannot be read");
    }
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

std::span<const std::byte> ScratchFile::mapped() {
  const auto bytes = static_cast<std::size_t>(end_.load());
  if (mapping_.empty() && bytes > 0) {
    void* const start = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (start == MAP_FAILED && errno == ENOMEM) {
      throw OutOfMemory("the scratch file", bytes);
    }
    if (start == MAP_FAILED) {
      fail(errno, "the scratch file cannot be mapped");
    }
    mapping_ = {static_cast<const std::byte*>(start), bytes};
  }
  expects(mapping_.size() == bytes, "a scratch file that grew after it was mapped");
  return mapping_;
}

void ScratchFile::fail(int error_number, const char* what) const {
  throw SystemError("E-SCRATCH", error_number, fmt::format("{}: {}", printable(folder_), what));
}

}  // namespace vindex::write
