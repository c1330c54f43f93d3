// Owns opening descriptors for direct reads, noting which file systems refuse, and the calls of the
// system behind ReadCalls.
#include "direct_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace vindex::input {

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

Residency ReadCalls::residency(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  return page_residency(descriptor, offset, bytes);
}

double ReadCalls::seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
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
