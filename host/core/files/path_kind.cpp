// Owns the calls of stat() behind these questions, and the comparison of paths whose last parts do
// not exist yet.
#include "path_kind.hpp"

#include <vindex/error.hpp>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <system_error>

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

namespace {

namespace fs = std::filesystem;

/// The nearest folder or file that is there, and what is named below it.
struct Place {
  std::string there;
  fs::path below;
};

/// The folder that `path` lies in, by its spelling: "a/" lies in ".", as "a" does.
fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

Place place_of(const std::string& path) {
  fs::path rest = path;
  fs::path below;
  while (path_kind(rest.string()) == PathKind::kAbsent) {
    if (rest == parent_of(rest)) {
      break;
    }
    below = below.empty() ? rest.filename() : rest.filename() / below;
    rest = parent_of(rest);
  }
  below = below.lexically_normal();
  if (below.has_relative_path() && !below.has_filename()) {
    below = below.parent_path();  // "a/" is "a"
  }
  return {rest.string(), below == "." ? fs::path() : below};
}

}  // namespace

bool is_same_place(const std::string& a, const std::string& b) {
  expects(!a.empty() && !b.empty(), "is_same_place: names of files");
  if (is_same_file(a, b)) {
    return true;
  }
  const Place first = place_of(a);
  const Place second = place_of(b);
  return first.below == second.below && is_same_file(first.there, second.there);
}

bool is_within(const std::string& folder, const std::string& path) {
  const Place place = place_of(path);
  std::error_code error;
  fs::path rest = fs::canonical(place.there, error);  // "out/../x" does not lie in out
  if (error) {
    throw SystemError("E-OPEN", error.value(), "cannot examine " + printable(place.there));
  }
  rest /= place.below;
  while (!is_same_place(folder, rest.string())) {
    const fs::path parent = parent_of(rest);
    if (parent == rest) {
      return false;
    }
    rest = parent;
  }
  return true;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string file_name_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace vindex
