// Owns claiming, refreshing and replacing a lock, and whether its owner still lives.
#include "lock_file.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/process_name.hpp"
#include "core/files/small_file.hpp"
#include "core/files/temporary_files.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::results {

namespace {

constexpr std::size_t kMaxLockBytes = 4096;
constexpr std::time_t kUnwrittenSeconds = 10;

struct Owner {
  std::string host, start;
  std::int64_t pid = 0;
};

/// Of the content "HOST PID START\n"; no host where it is none.
Owner parse(const std::string& content) {
  Owner owner;
  const std::size_t first = content.find(' ');
  const std::size_t second = first == std::string::npos ? first : content.find(' ', first + 1);
  const std::size_t end = content.find('\n');
  if (second == std::string::npos || end == std::string::npos || end < second) {
    return owner;
  }
  owner.host = content.substr(0, first);
  owner.start = content.substr(second + 1, end - second - 1);
  std::from_chars(content.data() + first + 1, content.data() + second, owner.pid);
  return owner;
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// A lock of another user or on a read-only mount can only be read; asking who holds it needs no
/// more.
int open_lock(const std::string& path) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  const int descriptor = ::open(path.c_str(), O_RDWR | kFlags);
  const bool is_refused = errno == EACCES || errno == EPERM || errno == EROFS;
  return descriptor >= 0 || !is_refused ? descriptor : ::open(path.c_str(), O_RDONLY | kFlags);
}

[[noreturn]] void throw_unreadable(const std::string& path, int error) {
  throw_output_error("E-OUT-CREATE", error, "cannot examine " + printable(path));
}

/// What an open lock says. Errors: throw_output_error(), since it may be of a run that lives.
std::string content_of(int descriptor, const std::string& path) {
  std::string text(kMaxLockBytes, '\0');
  ssize_t count = 0;
  do {
    count = ::pread(descriptor, text.data(), text.size(), 0);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    throw_unreadable(path, errno);
  }
  text.resize(static_cast<std::size_t>(count));
  return text;
}

int lock_call(int descriptor, int command, struct flock& whole_file) {
  whole_file = {};
  whole_file.l_type = F_WRLCK;
  whole_file.l_whence = SEEK_SET;
  int result = 0;
  do {
    result = ::fcntl(descriptor, command, &whole_file);
  } while (result != 0 && errno == EINTR);
  return result;
}

enum class Hold { kHeld, kFree, kUnknown };

/// Whether somebody else holds the file system's lock on the open file.
Hold holder(int descriptor) {
  struct flock answer;
  if (lock_call(descriptor, F_OFD_GETLK, answer) != 0) {
    return Hold::kUnknown;
  }
  return answer.l_type == F_UNLCK ? Hold::kFree : Hold::kHeld;
}

/// Takes the file system's lock: kFree where it is ours now.
Hold take_hold(int descriptor) {
  struct flock wish;
  if (lock_call(descriptor, F_OFD_SETLK, wish) == 0) {
    return Hold::kFree;
  }
  return errno == EAGAIN || errno == EACCES ? Hold::kHeld : Hold::kUnknown;
}

bool is_at(int descriptor, const std::string& path) {
  struct stat opened = {};
  struct stat named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

bool is_stale(int descriptor, const std::string& content, const FileClock& clock,
              std::time_t patience) {
  const Hold hold = holder(descriptor);
  if (hold == Hold::kHeld) {
    return false;
  }
  const auto is_older = [&](std::time_t seconds) {
    struct stat status = {};
    return ::fstat(descriptor, &status) == 0 && clock.now() - status.st_mtime > seconds;
  };
  const Owner owner = parse(content);
  if (owner.host.empty()) {
    return hold == Hold::kFree || is_older(kUnwrittenSeconds);
  }
  if (owner.host != host_name()) {
    return is_older(patience);
  }
  return process_is_gone(owner.pid, owner.start);
}

}  // namespace

bool is_stale_lock(const std::string& path, const FileClock& clock) {
  const Descriptor lock(open_lock(path));
  if (lock.number() < 0) {
    return errno == ENOENT;
  }
  return is_stale(lock.number(), content_of(lock.number(), path), clock, kForeignSeconds);
}

bool remove_stale_lock(const std::string& path, const FileClock& clock) {
  const Descriptor lock(open_lock(path));
  if (lock.number() < 0) {
    return errno == ENOENT;
  }
  if (!is_stale(lock.number(), content_of(lock.number(), path), clock, kForeignSeconds) ||
      take_hold(lock.number()) == Hold::kHeld) {
    return false;
  }
  if (is_at(lock.number(), path)) {  // else somebody was faster
    ::unlink(path.c_str());
  }
  return true;
}

void refuse_locked(const std::string& path) {
  const Owner owner = parse(read_small_file(path));
  throw ConfigurationError(
      "E-RUN-LOCKED",
      fmt::format("another vindex works on this output (process {} on {}); wait for it, or remove "
                  "{} if it is gone",
                  owner.pid, owner.host.empty() ? "an unknown machine" : printable(owner.host),
                  printable(path)));
}

LockFile::LockFile(const std::string& path) : LockFile(path, kForeignSeconds) {
  if (!is_ours_) {
    refuse_locked(path_);
  }
}

std::unique_ptr<LockFile> LockFile::try_take(const std::string& path, std::time_t patience) {
  std::unique_ptr<LockFile> lock(new LockFile(path, patience));
  return lock->is_ours_ ? std::move(lock) : nullptr;
}

LockFile::LockFile(const std::string& path, std::time_t patience)
    : path_(path),
      content_(fmt::format("{} {} {}\n", host_name(), getpid(), process_start(getpid()))),
      patience_(patience) {
  const std::string temporary = temporary_name(path_);
  try {
    write(temporary);
    is_ours_ = claim(temporary);
    if (!is_ours_) {
      ::unlink(temporary.c_str());
    }
  } catch (...) {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      ::unlink(temporary.c_str());
    }
    throw;
  }
}

LockFile::~LockFile() {
  if (is_at(descriptor_, path_)) {
    ::unlink(path_.c_str());
  }
  // After its name: nobody finds it free. What NFS keeps of a removed file goes with this.
  ::close(descriptor_);
}

void LockFile::write(const std::string& temporary) {
  descriptor_ = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    throw_output_error("E-OUT-CREATE", errno, "cannot create " + printable(path_));
  }
  std::size_t done = 0;
  while (done < content_.size()) {
    const ssize_t count = ::write(descriptor_, content_.data() + done, content_.size() - done);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      throw_output_error("E-OUT-WRITE", count < 0 ? errno : ENOSPC,
                         "cannot write " + printable(path_));
    }
    done += static_cast<std::size_t>(count);
  }
  (void)take_hold(descriptor_);  // where there are no such locks, the content decides
}

bool LockFile::claim(const std::string& temporary) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    int error = ::link(temporary.c_str(), path_.c_str()) == 0 ? 0 : errno;
    if (error == 0 ||
        is_at(descriptor_, path_)) {  // NFS may report an error of a link that it made
      ::unlink(temporary.c_str());
      return true;
    }
    if (error != EEXIST) {  // a file system without links
      const int renamed =
          ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE);
      if (renamed == 0) {
        return true;
      }
      error = errno == EEXIST ? EEXIST : error;
    }
    if (error != EEXIST) {
      throw_output_error("E-OUT-CREATE", error, "cannot create " + printable(path_));
    }
    if (const Attempt taken = replace_stale(temporary); taken != Attempt::kAgain) {
      return taken == Attempt::kOurs;
    }
  }
  return false;
}

/// kAgain where the name has changed hands meanwhile.
LockFile::Attempt LockFile::replace_stale(const std::string& temporary) {
  const Descriptor other(open_lock(path_));
  if (other.number() < 0) {
    if (errno != ENOENT) {
      throw_unreadable(path_, errno);
    }
    return Attempt::kAgain;
  }
  const std::string content = content_of(other.number(), path_);
  if (!is_stale(other.number(), content, FileClock(folder_of(path_)), patience_)) {
    return Attempt::kAlive;
  }
  switch (take_hold(other.number())) {
    case Hold::kHeld:  // somebody takes it over just now
      return Attempt::kAgain;
    case Hold::kFree:
      // The holder of what the name leads to may replace it, nobody else.
      if (!is_at(other.number(), path_)) {
        return Attempt::kAgain;
      }
      if (::rename(temporary.c_str(), path_.c_str()) != 0) {
        throw_output_error("E-OUT-CREATE", errno, "cannot create " + printable(path_));
      }
      return Attempt::kOurs;
    case Hold::kUnknown:
      break;
  }
  // No locks here: moved aside first; one that is alive by now is put back.
  const std::string aside = temporary_name(path_);
  if (::rename(path_.c_str(), aside.c_str()) == 0) {
    if (read_small_file(aside) != content) {
      const int restored = ::link(aside.c_str(), path_.c_str());
      static_cast<void>(restored);  // taken again already: then the next attempt refuses
    }
    ::unlink(aside.c_str());
  }
  return Attempt::kAgain;
}

void LockFile::refresh() noexcept {
  // The server's clock, not ours: a null time asks for it.
  ::futimens(descriptor_, nullptr);
}

}  // namespace vindex::results
