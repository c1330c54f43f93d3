// Owns opening descriptors for direct reads, and noting which file systems refuse.
#include "direct_files.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <utility>

namespace vindex::input {

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
