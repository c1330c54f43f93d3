#include <vindex/core/atomic_file.hpp>
#include <vindex/core/error.hpp>
#include <vindex/core/leftovers.hpp>
#include <vindex/core/process_name.hpp>

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace vindex {

namespace {
constexpr std::string_view kMark = ".tmp.";

/// Owner of a temporary file, from its name; empty host if the name is none of ours.
struct Owner {
  std::string host;
  std::string start;
  std::int64_t pid = 0;
};

/// Of "HOST.PID.START.NUMBER"; earlier versions had no start.
Owner owner_of(const std::string& suffix) {
  const std::size_t dot = suffix.find('.');
  if (dot == std::string::npos) {
    return {};
  }
  Owner owner{suffix.substr(0, dot), "", 0};
  const char* last = suffix.data() + suffix.size();
  const auto [end, error] = std::from_chars(suffix.data() + dot + 1, last, owner.pid);
  if (error != std::errc() || end == last || *end != '.') {
    return {};
  }
  const std::string rest(end + 1, last);
  const std::size_t second = rest.find('.');
  owner.start = second == std::string::npos ? "" : rest.substr(0, second);
  return owner;
}
}  // namespace

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

void throw_output_error(const char* id, int error_number, const std::string& what) {
  switch (error_number) {
    case EACCES:
    case EPERM:
    case ENOSPC:
    case EDQUOT:
    case EIO:
    case EFBIG:
    case EINTR:
      throw SystemError(id, error_number, what);
    default:
      throw OutputError(id, what + ": " + std::string(strerror(error_number)));
  }
}

AtomicFile::AtomicFile(std::string path, const OutputErrorIds& ids)
    : path_(std::move(path)), temporary_path_(temporary_name(path_)), ids_(ids) {
  descriptor_ = ::open(temporary_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw_output_error(ids_.create, errno, "cannot create " + printable(temporary_path_));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!renamed_) {
    ::unlink(temporary_path_.c_str());
  }
}

void AtomicFile::fail_write(int error_number) const {
  throw SystemError(ids_.write, error_number,
                    "cannot write " + printable(path_) + ", nothing of it is kept");
}

void AtomicFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail_write(count == 0 ? ENOSPC : errno);
    }
    done += static_cast<std::size_t>(count);
  }
}

void AtomicFile::resize(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    fail_write(errno);
  }
}

void AtomicFile::flush() {
  if (descriptor_ < 0) {
    return;
  }
  if (::fsync(descriptor_) != 0) {
    fail_write(errno);
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {
    fail_write(errno);
  }
}

void AtomicFile::rename() {
  expects(descriptor_ < 0 && !renamed_, "AtomicFile::rename: once, after flush");
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    throw_output_error(ids_.rename, errno, "cannot rename to " + printable(path_));
  }
  renamed_ = true;
}

void AtomicFile::publish() {
  flush();
  rename();
  sync_folder(folder_of(path_), ids_.folder);
}

void AtomicFile::withdraw() noexcept {
  if (renamed_) {
    ::unlink(path_.c_str());
  }
}

void sync_folder(const std::string& folder, const char* id) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) {
    throw SystemError(id, errno, "cannot open folder " + printable(folder));
  }
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  // Some network file systems cannot fsync a folder; nothing more can be done there.
  if (result != 0 && error != EINVAL && error != ENOTSUP) {
    throw SystemError(id, error, "cannot sync folder " + printable(folder));
  }
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_output_error("E-OUT-REMOVE", errno, "cannot remove " + printable(path));
  }
}

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> sequence{0};
  const std::string start = process_start(getpid());
  return fmt::format("{}{}{}.{}.{}{}", path, kMark, host_name(), getpid(),
                     start.empty() ? "" : start + ".", sequence++);
}

void remove_leftovers_of(const std::string& path) {
  remove_leftovers(folder_of(path), file_name_of(path) + std::string(kMark));
}

void remove_leftovers(const std::string& folder, const std::string& prefix) {
  constexpr std::time_t kForeignSeconds = 24 * 3600;
  const bool of_one_file = prefix.ends_with(kMark);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (!listing) {
    return;
  }
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    const std::size_t at = name.rfind(kMark);
    if (!name.starts_with(prefix) || at == std::string::npos ||
        (of_one_file && at + kMark.size() != prefix.size())) {
      continue;
    }
    const Owner owner = owner_of(name.substr(at + kMark.size()));
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (owner.host.empty() || stat(path.c_str(), &status) != 0) {
      continue;
    }
    // A process number says nothing of another machine; there only age does.
    const bool ours = owner.host == host_name();
    if (ours ? process_is_gone(owner.pid, owner.start)
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

}  // namespace vindex
