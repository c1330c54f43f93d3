// Owns the locks of a run on its parts folder, one file for each worker (lock_file.hpp): who
// excludes whom, and which are alive.
#pragma once

#include "lock_file.hpp"

#include <string>
#include <vector>

namespace vindex::results {

class RunLock {
 public:
  /// Locks `folder` for worker `tag` ("0of1") until it ends. Workers of one count go together,
  /// anything else excludes. Errors: ConfigurationError E-RUN-LOCKED naming the owner; SystemError,
  /// OutputError.
  RunLock(const std::string& folder, const std::string& tag);
  /// Shows that the owner lives; cheap, call it often.
  void refresh();
  /// What the lock file holds: "HOST PID START".
  std::string owner() const;

 private:
  LockFile file_;
  double refreshed_;
};

/// True where the live process `owner` (RunLock::owner()) holds the lock of worker `tag`.
bool is_held(const std::string& folder, const std::string& tag, const std::string& owner);

/// The lock of worker `tag`, which need not be there.
std::string lock_path(const std::string& folder, const std::string& tag);

/// Tags of the locks in `folder`, also of dead processes; and those of live ones.
std::vector<std::string> locked_tags(const std::string& folder);
std::vector<std::string> live_tags(const std::string& folder);

/// True where some live process holds a lock in `folder`.
bool is_locked(const std::string& folder);

/// Removes what killed processes left of their locks.
void remove_stale_locks(const std::string& folder);

}  // namespace vindex::results
