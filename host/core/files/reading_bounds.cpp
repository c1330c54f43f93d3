// Owns opening a file beneath one of the roots: by openat2() where the kernel has it, else part by
// part, without following a link out of the root.
#include "reading_bounds.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace vindex {

namespace {

/// Linux gave it one number on every architecture; as in linux/openat2.h.
#ifdef SYS_openat2
constexpr long kOpenat2 = SYS_openat2;
#else
constexpr long kOpenat2 = 437;
#endif

struct OpenHow {
  std::uint64_t flags = 0;
  std::uint64_t mode = 0;
  std::uint64_t resolve = 0;
};
constexpr std::uint64_t kNoMagicLinks = 0x02;
constexpr std::uint64_t kNoSymlinks = 0x04;
constexpr std::uint64_t kBeneath = 0x08;

struct Root {
  std::string path;  ///< without links, no slash at its end
  int descriptor = -1;
};

struct Bounds {
  bool are_set = false;
  bool by_components = false;
  std::vector<Root> roots;
};

Bounds& bounds() {
  static Bounds all;
  return all;
}

/// `path` with all links followed; nothing where it leads nowhere, with errno.
std::optional<std::string> real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real == nullptr ? std::nullopt : std::optional<std::string>(real.get());
}

/// The root that `real` lies beneath, or is; null: none.
const Root* root_of(const std::string& real) {
  const auto found =
      std::find_if(bounds().roots.begin(), bounds().roots.end(), [&](const Root& root) {
        return real.starts_with(root.path) && (real.size() == root.path.size() ||
                                               real[root.path.size()] == '/' || root.path == "/");
      });
  return found == bounds().roots.end() ? nullptr : &*found;
}

[[noreturn]] void throw_outside(const std::string& path) {
  throw SystemError("E-READ-OUTSIDE", EACCES,
                    excerpt(path) + " leads out of the folders that may be read here");
}

int open_by_parts(int root, std::string_view below, int flags) {
  const std::vector<std::string_view> parts = split(below, '/');
  int at = ::fcntl(root, F_DUPFD_CLOEXEC, 0);
  for (std::size_t i = 0; at >= 0 && i < parts.size(); ++i) {
    const bool is_last = i + 1 == parts.size();
    const int next =
        ::openat(at, std::string(parts[i]).c_str(),
                 is_last ? flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    ::close(at);
    errno = error;
    at = next;
  }
  return at;
}

/// `below`: relative, without links; "." for the root itself.
int open_below(int root, const std::string& below, int flags) {
  if (!bounds().by_components) {
    OpenHow how;
    how.flags = static_cast<std::uint64_t>(flags);
    how.resolve = kBeneath | kNoSymlinks | kNoMagicLinks;
    const long opened = ::syscall(kOpenat2, root, below.c_str(), &how, sizeof how);
    // A sandbox that does not know the call answers EPERM.
    if (opened >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) {
      return static_cast<int>(opened);
    }
  }
  return open_by_parts(root, below, flags);
}

}  // namespace

void read_only_beneath(const std::vector<std::string>& roots) {
  expects(!bounds().are_set, "read_only_beneath: once");
  bounds().are_set = true;
  for (const std::string& root : roots) {
    const auto real = root.starts_with('/') ? real_path(root) : std::nullopt;
    const int descriptor = real ? ::open(real->c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (descriptor < 0) {
      throw ConfigurationError("E-READ-BOUNDS",
                               excerpt(root) + ": no folder to read beneath (VINDEX_BENEATH)");
    }
    bounds().roots.push_back({*real, descriptor});
  }
}

bool reading_is_bounded() { return bounds().are_set; }

int open_to_read(const std::string& path, int flags) {
  flags |= O_RDONLY | O_CLOEXEC;
  if (!reading_is_bounded()) {
    return ::open(path.c_str(), flags);
  }
  const auto real = real_path(path);
  if (!real) {
    return -1;
  }
  const Root* const root = root_of(*real);
  if (root == nullptr) {
    throw_outside(path);
  }
  const std::string below =
      real->substr(std::min(real->size(), root->path == "/" ? 1 : root->path.size() + 1));
  const int descriptor = open_below(root->descriptor, below.empty() ? "." : below, flags);
  // What was no link a moment ago has become one.
  if (descriptor < 0 && (errno == ELOOP || errno == EXDEV)) {
    throw_outside(path);
  }
  return descriptor;
}

void expect_readable_place(const std::string& path) {
  if (!reading_is_bounded()) {
    return;
  }
  const auto real = real_path(path);
  if (real && root_of(*real) == nullptr) {
    throw_outside(path);
  }
}

namespace testing {

void forget_reading_bounds() {
  for (const Root& root : bounds().roots) {
    ::close(root.descriptor);
  }
  bounds() = Bounds();
}

void open_by_components(bool by_components) { bounds().by_components = by_components; }

}  // namespace testing

}  // namespace vindex
