// Owns the names of workers' locks, and which of them exclude each other.
#include "run_lock.hpp"

#include "heartbeat.hpp"
#include "output_path.hpp"

#include "core/files/process_name.hpp"
#include "core/files/small_file.hpp"

#include <algorithm>
#include <chrono>
#include <unistd.h>

namespace vindex::results {

namespace {

constexpr const char* kLockSuffix = ".lock";
/// How earlier versions called a lock that they took over.
constexpr const char* kAside = ".lock.stale.";

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> locks_in(const std::string& folder) {
  return names_in(folder, [](const std::string& name) { return name.ends_with(kLockSuffix); });
}

std::string tag_of(const std::string& lock) {
  return lock.substr(0, lock.size() - std::string(kLockSuffix).size());
}

std::string count_of(const std::string& tag) { return tag.substr(tag.rfind("of") + 2); }

/// Of a worker that nobody will follow, its progress goes too.
bool remove_if_stale(const std::string& folder, const std::string& name, const FileClock& clock) {
  if (!remove_stale_lock(folder + "/" + name, clock)) {
    return false;
  }
  ::unlink(heartbeat_path(folder, tag_of(name)).c_str());
  return true;
}

}  // namespace

std::string lock_path(const std::string& folder, const std::string& tag) {
  return folder + "/" + tag + kLockSuffix;
}

RunLock::RunLock(const std::string& folder, const std::string& tag)
    : file_(lock_path(folder, tag)), refreshed_(monotonic_seconds()) {
  const FileClock clock(folder);
  for (const std::string& name : locks_in(folder)) {
    const std::string other_tag = tag_of(name);
    if (other_tag == tag || (count_of(tag) != "1" && count_of(other_tag) == count_of(tag))) {
      continue;
    }
    if (!remove_if_stale(folder, name, clock)) {
      refuse_locked(folder + "/" + name);
    }
  }
}

void RunLock::refresh() {
  constexpr double kSeconds = 20.0;
  const double now = monotonic_seconds();
  if (now - refreshed_ >= kSeconds) {
    refreshed_ = now;
    file_.refresh();
  }
}

std::string RunLock::owner() const { return file_.content().substr(0, file_.content().find('\n')); }

bool is_held(const std::string& folder, const std::string& tag, const std::string& owner) {
  const std::string path = lock_path(folder, tag);
  return read_small_file(path) == owner + "\n" && !is_stale_lock(path, FileClock(folder));
}

std::vector<std::string> locked_tags(const std::string& folder) {
  std::vector<std::string> tags = locks_in(folder);
  std::transform(tags.begin(), tags.end(), tags.begin(), tag_of);
  return tags;
}

std::vector<std::string> live_tags(const std::string& folder) {
  std::vector<std::string> tags = locked_tags(folder);
  const FileClock clock(folder);
  std::erase_if(
      tags, [&](const std::string& tag) { return is_stale_lock(lock_path(folder, tag), clock); });
  return tags;
}

bool is_locked(const std::string& folder) { return !live_tags(folder).empty(); }

void remove_stale_locks(const std::string& folder) {
  const FileClock clock(folder);
  for (const std::string& name : locks_in(folder)) {
    (void)remove_if_stale(folder, name, clock);
  }
  for (const std::string& name : names_in(folder, [](const std::string& each) {
         return each.find(kAside) != std::string::npos;
       })) {
    ::unlink((folder + "/" + name).c_str());
  }
}

}  // namespace vindex::results
