// Owns the lock of a run on its parts folder: a file created exclusively with host, process and
// start time of its owner. flock() is not trusted on network file systems. A lock is stale when its
// process is gone from this machine, or, from another machine, when it was not refreshed for ten
// minutes by the file server's clock.
#pragma once

#include <cstdint>
#include <string>

namespace vindex::results {

class RunLock {
 public:
  /// Locks `folder` for worker `tag` ("0of1"). Workers of one count go together, anything else
  /// excludes. Errors: ConfigurationError E-RUN-LOCKED naming the owner; SystemError, OutputError.
  RunLock(const std::string& folder, const std::string& tag);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();
  /// Shows that the owner lives; cheap, call it often.
  void refresh();
  /// What the lock file holds: "HOST PID START".
  std::string owner() const;
  /// Removes the lock now.
  void release() noexcept;

 private:
  std::string path_;
  std::string content_;
  double refreshed_ = 0.0;
};

/// True where the live process `owner` (RunLock::owner()) holds the lock of worker `tag`.
bool is_held(const std::string& folder, const std::string& tag, const std::string& owner);

/// Locks of live processes in `folder`.
std::int32_t count_locks(const std::string& folder);

/// True where some live process holds a lock in `folder`.
bool is_locked(const std::string& folder);

}  // namespace vindex::results
