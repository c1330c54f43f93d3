#include <vindex/core/process_name.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

namespace vindex {

const std::string& host_name() {
  static const std::string name = [] {
    std::array<char, 256> buffer = {};
    if (gethostname(buffer.data(), buffer.size() - 1) != 0) {
      return std::string("unknown");
    }
    std::string text(buffer.data());
    for (char& c : text) {
      const bool plain =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
      c = plain ? c : '_';
    }
    return text.empty() ? std::string("unknown") : text;
  }();
  return name;
}

std::string read_small_file(const std::string& path, std::size_t most) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return "";
  }
  std::string text(most, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = ::read(descriptor, text.data() + size, text.size() - size);
    if (count <= 0) {
      break;
    }
    size += static_cast<std::size_t>(count);
  }
  ::close(descriptor);
  text.resize(size);
  return text;
}

bool process_is_gone(std::int64_t pid) {
  return pid <= 0 || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH);
}

}  // namespace vindex
