// Owns the calls of the system behind ReadCalls.
#include "read_calls.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <string>
#include <unistd.h>

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

}  // namespace vindex::input
