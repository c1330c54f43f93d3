#include "run_lock.hpp"

#include "heartbeat.hpp"

#include <vindex/core/atomic_file.hpp>
#include <vindex/core/error.hpp>
#include <vindex/core/process_name.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace vindex::results {

namespace {

constexpr const char* kSuffix = ".lock";
constexpr std::time_t kForeignSeconds = 600;
constexpr std::time_t kUnwrittenSeconds = 10;

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Start of process `pid` in ticks since boot (field 22 of /proc/PID/stat); empty where unknown.
std::string process_start(std::int64_t pid) {
  const std::string text = read_small_file(fmt::format("/proc/{}/stat", pid));
  std::size_t at = text.rfind(')');  // the name before it may hold spaces
  for (int field = 2; field < 22 && at != std::string::npos; ++field) {
    at = text.find(' ', at + 1);
  }
  if (at == std::string::npos) {
    return "";
  }
  return text.substr(at + 1, text.find(' ', at + 1) - at - 1);
}

struct Owner {
  std::string host, start;
  std::int64_t pid = 0;
};

/// Lock content: "HOST PID START\n".
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

/// Seconds since `path` was refreshed, by the clock of the file system that holds it.
std::optional<std::time_t> age(const std::string& path, std::time_t now) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    return std::nullopt;
  }
  return now - status.st_mtime;
}

bool is_stale(const std::string& path, const std::string& content, std::time_t now) {
  const Owner owner = parse(content);
  const std::optional<std::time_t> seconds = age(path, now);
  if (!seconds) {
    return true;
  }
  if (owner.host.empty()) {
    return *seconds > kUnwrittenSeconds;  // its owner may be about to write
  }
  if (owner.host != host_name()) {
    return *seconds > kForeignSeconds;
  }
  if (process_is_gone(owner.pid)) {
    return true;
  }
  const std::string start = process_start(owner.pid);
  return !start.empty() && !owner.start.empty() && start != owner.start;
}

std::vector<std::string> locks_in(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.ends_with(kSuffix)) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void refuse(const std::string& path, const std::string& content) {
  const Owner owner = parse(content);
  throw ConfigurationError(
      "E-RUN-LOCKED",
      fmt::format("another vindex works on this output (process {} on {}); wait for it, or remove "
                  "{} if it is gone",
                  owner.pid, owner.host.empty() ? "an unknown machine" : printable(owner.host),
                  printable(path)));
}

std::string count_of(const std::string& tag) { return tag.substr(tag.find("of") + 2); }

}  // namespace

RunLock::RunLock(const std::string& folder, const std::string& tag)
    : path_(folder + "/" + tag + kSuffix),
      content_(fmt::format("{} {} {}\n", host_name(), getpid(), process_start(getpid()))) {
  for (int attempt = 0;; ++attempt) {
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      const ssize_t count = ::write(descriptor, content_.data(), content_.size());
      const int error = count < 0 ? errno : ENOSPC;
      ::close(descriptor);
      if (count != static_cast<ssize_t>(content_.size())) {
        ::unlink(path_.c_str());
        throw_output_error("E-OUT-WRITE", error, "cannot write " + printable(path_));
      }
      break;
    }
    if (errno != EEXIST) {
      throw_output_error("E-OUT-CREATE", errno, "cannot create " + printable(path_));
    }
    const std::string content = read_small_file(path_);
    if (attempt >= 8 || !is_stale(path_, content, std::time(nullptr))) {
      refuse(path_, content);
    }
    // Moved aside first: whoever moves a lock that has become a live one meanwhile puts it back.
    const std::string aside = fmt::format("{}.stale.{}.{}", path_, host_name(), getpid());
    if (::rename(path_.c_str(), aside.c_str()) == 0) {
      if (read_small_file(aside) != content) {
        const int restored = ::link(aside.c_str(), path_.c_str());
        static_cast<void>(restored);  // taken again already: then the next attempt refuses
      }
      ::unlink(aside.c_str());
    }
  }
  struct stat own = {};
  const std::time_t now = stat(path_.c_str(), &own) == 0 ? own.st_mtime : std::time(nullptr);
  for (const std::string& name : locks_in(folder)) {
    const std::string other = folder + "/" + name;
    const std::string other_tag = name.substr(0, name.size() - std::string(kSuffix).size());
    if (other == path_ || (count_of(tag) != "1" && count_of(other_tag) == count_of(tag))) {
      continue;
    }
    const std::string content = read_small_file(other);
    if (is_stale(other, content, now)) {
      ::unlink(other.c_str());
      ::unlink(heartbeat_path(folder, other_tag).c_str());  // of a worker that nobody will follow
    } else {
      release();
      refuse(other, content);
    }
  }
  refreshed_ = monotonic_seconds();
}

RunLock::~RunLock() { release(); }

void RunLock::refresh() {
  constexpr double kSeconds = 20.0;
  const double now = monotonic_seconds();
  if (now - refreshed_ < kSeconds || path_.empty()) {
    return;
  }
  refreshed_ = now;
  // The server's clock, not ours: a null time asks for it.
  ::utimensat(AT_FDCWD, path_.c_str(), nullptr, 0);
}

void RunLock::release() noexcept {
  if (!path_.empty() && read_small_file(path_) == content_) {
    ::unlink(path_.c_str());
  }
  path_.clear();
}

std::string RunLock::owner() const { return content_.substr(0, content_.find('\n')); }

bool is_held(const std::string& folder, const std::string& tag, const std::string& owner) {
  const std::string path = folder + "/" + tag + kSuffix;
  const std::string content = read_small_file(path);
  return content == owner + "\n" && !is_stale(path, content, std::time(nullptr));
}

std::int32_t count_locks(const std::string& folder) {
  const std::vector<std::string> names = locks_in(folder);
  return static_cast<std::int32_t>(
      std::count_if(names.begin(), names.end(), [&](const std::string& name) {
        const std::string path = folder + "/" + name;
        return !is_stale(path, read_small_file(path), std::time(nullptr));
      }));
}

bool is_locked(const std::string& folder) { return count_locks(folder) > 0; }

}  // namespace vindex::results
