// Owns writing to a file or to standard output.
#include "output_sink.hpp"

#include <cerrno>
#include <unistd.h>

namespace vindex {

namespace {
constexpr const char* kId = "E-STDOUT";
}  // namespace

void write_standard_output(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      throw SystemError(kId, errno, "standard output cannot be written");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

bool is_closed_output(const Error& error) {
  const auto* failed = dynamic_cast<const SystemError*>(&error);
  return failed != nullptr && failed->id() == kId && failed->error_number() == EPIPE;
}

OutputSink::OutputSink(const std::string& target, const OutputErrorIds& ids) {
  if (target != "-") {
    file_.emplace(target, ids);
  }
}

void OutputSink::write(std::span<const std::byte> bytes) {
  if (!file_) {
    return write_standard_output(bytes);
  }
  file_->write(written_, bytes);
  written_ += bytes.size();
}

void OutputSink::commit() {
  if (file_) {
    file_->publish();
  }
}

}  // namespace vindex
