#include <vindex/core/error.hpp>
#include <vindex/core/output_target.hpp>
#include <vindex/core/path_kind.hpp>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace vindex {

namespace {
constexpr std::array<char, 8> kHdf5 = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};

/// Whether the file begins as an HDF5 file does. What cannot be read might be one.
bool is_hdf5(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  std::array<char, kHdf5.size()> beginning{};
  ssize_t got = -1;
  do {
    got = descriptor < 0 ? -1 : ::pread(descriptor, beginning.data(), beginning.size(), 0);
  } while (descriptor >= 0 && got < 0 && errno == EINTR);
  const int error = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (got < 0) {
    throw SystemError("E-OPEN", error,
                      fmt::format("cannot read {}, which is to be replaced", printable(path)));
  }
  return got == static_cast<ssize_t>(beginning.size()) && beginning == kHdf5;
}
}  // namespace

void require_free_target(const std::string& path, bool replace) {
  if (path_kind(path) != PathKind::kFile) {
    return;
  }
  if (is_hdf5(path)) {
    throw OutputError("E-OUTPUT-RESULTS",
                      fmt::format("{}: a results file (HDF5) is never replaced, not with --force "
                                  "either; choose another name",
                                  printable(path)));
  }
  if (!replace) {
    throw OutputError("E-OUTPUT-EXISTS",
                      fmt::format("{} exists; --force replaces it", printable(path)));
  }
}

}  // namespace vindex
