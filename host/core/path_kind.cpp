#include <vindex/core/error.hpp>
#include <vindex/core/path_kind.hpp>

#include <cerrno>
#include <optional>
#include <sys/stat.h>

namespace vindex {

namespace {

bool says_absent(int error_number) {
  return error_number == ENOENT || error_number == ENOTDIR || error_number == ELOOP ||
         error_number == ENAMETOOLONG;
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) {
    return status;
  }
  if (!says_absent(errno)) {
    throw SystemError("E-OPEN", errno, "cannot examine " + printable(path));
  }
  return std::nullopt;
}

}  // namespace

PathKind path_kind(const std::string& path) {
  const auto status = status_of(path);
  if (!status) {
    return PathKind::kAbsent;
  }
  if (S_ISDIR(status->st_mode)) {
    return PathKind::kFolder;
  }
  return S_ISREG(status->st_mode) ? PathKind::kFile : PathKind::kOther;
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  const auto status = status_of(path);
  return status ? std::optional(FileIdentity{status->st_dev, status->st_ino}) : std::nullopt;
}

bool is_same_file(const std::string& a, const std::string& b) {
  const auto first = file_identity(a);
  return first && first == file_identity(b);
}

}  // namespace vindex
