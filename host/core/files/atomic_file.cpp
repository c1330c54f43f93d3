// Owns writing, syncing and renaming one file.
#include "atomic_file.hpp"

#include "output_target.hpp"
#include "path_kind.hpp"
#include "temporary_files.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace vindex {

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

}  // namespace vindex
