#include <vindex/core/error.hpp>
#include <vindex/core/output_target.hpp>

#include <fmt/format.h>

#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex {

namespace {
constexpr std::array<char, 8> kHdf5 = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};

/// Whether the file begins as an HDF5 file does. What cannot be read is no reason to keep it.
bool is_hdf5(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    return false;
  }
  std::array<char, kHdf5.size()> beginning{};
  const ssize_t got = ::pread(descriptor, beginning.data(), beginning.size(), 0);
  ::close(descriptor);
  return got == static_cast<ssize_t>(beginning.size()) && beginning == kHdf5;
}
}  // namespace

void require_free_target(const std::string& path, bool replace) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
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
