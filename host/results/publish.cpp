#include "publish.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace vindex::results {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) {
    return ".";
  }
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string name_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

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

void throw_output_error(const char* id, int error_number, const std::string& what) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case ENOSPC:
    case EDQUOT:
    case EIO:
    case EFBIG:
      throw SystemError(id, error_number, what);
    default:
      throw OutputError(id, what + ": " + std::string(strerror(error_number)));
  }
}

namespace {

FileStorage create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    throw_output_error("E-OUT-CREATE", errno, "cannot create " + printable(path));
  }
  return FileStorage(descriptor, path, 0);
}

std::string temporary_name(const std::string& final_path) {
  static std::atomic<unsigned> sequence{0};
  return fmt::format("{}.tmp.{}.{}.{}", final_path, host_name(), getpid(), sequence++);
}

/// Owner of a temporary file, from its name; empty host if the name is none of ours.
struct Owner {
  std::string host;
  std::int64_t pid = 0;
};

Owner owner_of(const std::string& suffix) {
  const std::size_t dot = suffix.find('.');
  if (dot == std::string::npos) {
    return {};
  }
  Owner owner{suffix.substr(0, dot), 0};
  const char* last = suffix.data() + suffix.size();
  const auto [end, error] = std::from_chars(suffix.data() + dot + 1, last, owner.pid);
  return error == std::errc() && end != last && *end == '.' ? owner : Owner{};
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& final_path)
    : final_path_(final_path), path_(temporary_name(final_path)), storage_(create(path_)) {}

TemporaryFile::~TemporaryFile() {
  if (!published_) {
    ::unlink(path_.c_str());
  }
}

void TemporaryFile::publish(const std::function<void(const std::string& path)>& check) {
  storage_.rethrow_failure();
  if (::fsync(storage_.descriptor()) != 0) {
    throw SystemError("E-OUT-WRITE", errno, "cannot write " + printable(path_));
  }
  check(path_);
  if (::rename(path_.c_str(), final_path_.c_str()) != 0) {
    throw_output_error("E-OUT-RENAME", errno, "cannot rename to " + printable(final_path_));
  }
  published_ = true;
  fsync_folder(folder_of(final_path_));
}

void remove_leftovers(const std::string& folder, const std::string& prefix) {
  constexpr std::time_t kForeignSeconds = 24 * 3600;
  const std::string mark = ".tmp.";
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (!listing) {
    return;
  }
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    const std::size_t at = name.rfind(mark);
    if (!name.starts_with(prefix) || at == std::string::npos) {
      continue;
    }
    const Owner owner = owner_of(name.substr(at + mark.size()));
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (owner.host.empty() || stat(path.c_str(), &status) != 0) {
      continue;
    }
    // A process number says nothing of another machine; there only age does.
    const bool ours = owner.host == host_name();
    if (ours ? process_is_gone(owner.pid)
             : std::time(nullptr) - status.st_mtime > kForeignSeconds) {
      ::unlink(path.c_str());
    }
  }
}

void require_free_space(const std::string& path, std::uint64_t bytes) {
  struct statvfs status = {};
  if (statvfs(folder_of(path).c_str(), &status) != 0) {
    return;  // writing will tell
  }
  const std::uint64_t available =
      static_cast<std::uint64_t>(status.f_bavail) * static_cast<std::uint64_t>(status.f_frsize);
  if (available < bytes) {
    throw SystemError(
        "E-OUT-SPACE", ENOSPC,
        fmt::format("{} needs at least {} bytes, {} are free", printable(path), bytes, available));
  }
}

void fsync_folder(const std::string& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw SystemError("E-OUT-FOLDER", errno, "cannot open folder " + printable(folder));
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems cannot fsync a folder; nothing more can be done there.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    throw SystemError("E-OUT-FOLDER", error, "cannot sync folder " + printable(folder));
  }
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_output_error("E-OUT-REMOVE", errno, "cannot remove " + printable(path));
  }
}

}  // namespace vindex::results
