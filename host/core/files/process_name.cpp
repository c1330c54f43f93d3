// Owns reading /proc for the time at which a process started, which distinguishes it from a later
// one of the same number.
#include "process_name.hpp"

#include "small_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
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

std::string process_start(std::int64_t pid) {
  const std::string text = read_small_file(fmt::format("/proc/{}/stat", pid));
  std::size_t at = text.rfind(')');  // the name before it may hold spaces
  for (int field = 2; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at + 1);
  }
  if (at == std::string::npos) {
    return "";
  }
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

bool process_is_gone(std::int64_t pid, const std::string& start) {
  if (pid <= 0 || (kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH)) {
    return true;
  }
  const std::string now = start.empty() ? std::string() : process_start(pid);
  return !now.empty() && now != start;
}

}  // namespace vindex
