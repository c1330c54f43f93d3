// Owns opening without waiting, the bound on what is read, and the test of who owns an open file.
#include "small_file.hpp"

#include "reading_bounds.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex {
namespace {

constexpr std::size_t kReadPiece = 4096;

PathKind kind_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    return PathKind::kOther;
  }
  return S_ISREG(status.st_mode)   ? PathKind::kFile
         : S_ISDIR(status.st_mode) ? PathKind::kFolder
                                   : PathKind::kOther;
}

// O_NONBLOCK: opening a pipe must not wait for a writer. It changes nothing for regular files.
constexpr int kNeverWait = O_NONBLOCK | O_NOCTTY;

/// Takes the descriptor.
SmallFile read_open(int descriptor, std::size_t most) {
  SmallFile out;
  if (descriptor < 0) {
    // A socket cannot be opened at all.
    out.kind = errno == ENXIO ? PathKind::kOther : PathKind::kAbsent;
    return out;
  }
  out.kind = kind_of(descriptor);
  while (out.kind == PathKind::kFile && out.text.size() < most) {
    const std::size_t before = out.text.size();
    const std::size_t wanted = std::min(most - before, std::max(kReadPiece, before));
    out.text.resize(before + wanted);
    const ssize_t count = ::read(descriptor, out.text.data() + before, wanted);
    out.text.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count == 0 || (count < 0 && errno != EINTR)) {
      break;
    }
  }
  ::close(descriptor);
  return out;
}

}  // namespace

SmallFile small_file(const std::string& path, std::size_t most) {
  return read_open(::open(path.c_str(), O_RDONLY | O_CLOEXEC | kNeverWait), most);
}

std::string read_small_input(const std::string& path, std::size_t most) {
  return read_open(open_to_read(path, kNeverWait), most).text;
}

bool is_own_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink <= 1;
}

}  // namespace vindex
