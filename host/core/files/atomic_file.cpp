// Owns the steps of such a file: a nameless or temporary one, writes, fsync, rename, fsync of the
// folder; and the removal of temporaries whose process is gone.
#include "atomic_file.hpp"

#include "output_target.hpp"

#include "core/process/process_name.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <unordered_set>
#include <utility>
#include <vector>

namespace vindex {

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

AtomicFile::AtomicFile(std::string path, const OutputErrorIds& ids, StaleTemporaries stale)
    : path_(std::move(path)), ids_(ids) {
  require_file_target(path_, ids_.create);
  if (stale == StaleTemporaries::kRemove) {
    remove_stale_temporaries_of(path_);
  }
  temporary_path_ = temporary_name(path_);
  create();
}

AtomicFile::AtomicFile(std::string path, std::string staged, const OutputErrorIds& ids)
    : path_(std::move(path)), temporary_path_(std::move(staged)), ids_(ids), staged_(true) {
  create();
}

void AtomicFile::create() {
  descriptor_ = ::open(temporary_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw_output_error(ids_.create, errno, "cannot create " + printable(path_));
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
  if (staged_) {
    renamed_ = true;
    return;
  }
  require_file_target(path_, ids_.rename);  // it may have come while this was written
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

int open_nameless_file(const std::string& folder, const char* id) {
  int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    // A file system without nameless files: the name lives for an instant, and a kill within it is
    // cleared by the next one.
    remove_stale_temporaries_of(folder + "/.vindex-scratch");
    const std::string name = temporary_name(folder + "/.vindex-scratch");
    descriptor = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor >= 0) {
      ::unlink(name.c_str());
    }
  }
  if (descriptor < 0) {
    throw_output_error(id, errno,
                       fmt::format("{}: no scratch file can be made there", printable(folder)));
  }
  return descriptor;
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_output_error("E-OUT-REMOVE", errno, "cannot remove " + printable(path));
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

/// When anything in the folder last changed: one that grows is not stale.
std::time_t last_change(const std::string& path, const struct stat& status) {
  std::time_t last = status.st_mtime;
  if (!S_ISDIR(status.st_mode)) {
    return last;
  }
  std::error_code trouble;
  std::filesystem::recursive_directory_iterator entry(path, trouble);
  for (; !trouble && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(trouble)) {
    struct stat inner = {};
    if (lstat(entry->path().c_str(), &inner) == 0) {
      last = std::max(last, inner.st_mtime);
    }
  }
  return last;
}

/// Those of the outputs `of`; of every one where it is null.
std::vector<std::string> find_in(const std::string& folder,
                                 const std::unordered_set<std::string>* of) {
  constexpr std::time_t kForeignSeconds = 24 * 3600;
  std::vector<std::string> gone;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    const std::size_t at = name.rfind(kMark);
    if (at == std::string::npos || (of != nullptr && !of->contains(name.substr(0, at)))) {
      continue;
    }
    const Owner owner = owner_of(name.substr(at + kMark.size()));
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (owner.host.empty() || lstat(path.c_str(), &status) != 0) {
      continue;
    }
    // A process number says nothing of another machine; there only age does.
    const bool ours = owner.host == host_name();
    if (ours ? process_is_gone(owner.pid, owner.start)
             : std::time(nullptr) - last_change(path, status) > kForeignSeconds) {
      gone.push_back(path);
    }
  }
  return gone;
}

void remove_all(const std::vector<std::string>& gone) {
  for (const std::string& path : gone) {
    std::error_code ignored;  // the next one tries again
    std::filesystem::remove_all(path, ignored);
  }
}
}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> sequence{0};
  const std::string start = process_start(getpid());
  return fmt::format("{}{}{}.{}.{}{}", path, kMark, host_name(), getpid(),
                     start.empty() ? "" : start + ".", sequence++);
}

void remove_stale_temporaries_of(const std::string& path) {
  remove_stale_temporaries_of(std::span(&path, 1));
}

void remove_stale_temporaries_of(std::span<const std::string> paths) {
  std::unordered_set<std::string> names;
  for (const std::string& path : paths) {
    names.insert(file_name_of(path));
  }
  if (!paths.empty()) {
    remove_all(find_in(folder_of(paths.front()), &names));
  }
}

void remove_stale_temporaries_in(const std::string& folder) {
  remove_all(stale_temporaries_in(folder));
}

std::vector<std::string> stale_temporaries_in(const std::string& folder) {
  return find_in(folder, nullptr);
}

}  // namespace vindex
