#include "output_file.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/standard_output.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::run {

OutputFile::OutputFile(std::string target) : target_(std::move(target)) {
  if (target_.empty()) {
    throw OutputError("E-OUTPUT", "an empty name is no file to write to");
  }
  if (target_ == "-") {
    return;
  }
  struct stat status {};
  if (::stat(target_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    throw OutputError("E-OUTPUT",
                      fmt::format("{}: exists and is no regular file", printable(target_)));
  }
  temporary_ = fmt::format("{}.tmp.{}", target_, ::getpid());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    const int error = errno;
    if (error == EACCES || error == EPERM) {
      throw SystemError("E-OUTPUT", error,
                        fmt::format("{}: cannot be created", printable(temporary_)));
    }
    throw OutputError("E-OUTPUT", fmt::format("{}: cannot be created: {}", printable(temporary_),
                                              std::strerror(error)));
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    ::unlink(temporary_.c_str());
  }
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (descriptor_ < 0) {
    return write_standard_output(bytes);
  }
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw SystemError("E-WRITE", errno,
                        fmt::format("{}: writing failed; nothing was kept", printable(target_)));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::commit() {
  if (descriptor_ < 0) {
    return;
  }
  if (::fsync(descriptor_) != 0) {
    throw SystemError("E-WRITE", errno,
                      fmt::format("{}: writing failed; nothing was kept", printable(target_)));
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
    throw SystemError("E-WRITE", errno,
                      fmt::format("{}: cannot be put in place", printable(target_)));
  }
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace vindex::run
