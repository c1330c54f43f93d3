// Owns one lock file: it appears whole, under a temporary name first, and holds "HOST PID START"
// for people and for other machines. Its owner also keeps an open file description lock (fcntl) on
// it, which the kernel takes back however the process ends.
//   local, NFSv4, Lustre with -o flock: a lock that is held is alive; one that
//     nobody holds is stale at once if it is of this machine.
//   locks of this machine alone (NFS with nolock or local_lock, Lustre with localflock): one of
//     another machine seems not to be held; it is stale after ten minutes without a refresh, by the
//     file server's clock.
//   no locks (fcntl fails): as before; on this machine its process and start time decide.
#pragma once

#include <ctime>
#include <string>

namespace vindex::results {

/// Whether nobody works under the lock `path` any more; true also where there is none. `now`: of
/// the clock that stamps files.
bool is_stale_lock(const std::string& path, std::time_t now);

/// Removes the lock `path` if it is stale; never one that somebody has taken over meanwhile. False
/// where it is alive.
bool remove_stale_lock(const std::string& path, std::time_t now);

/// Throws ConfigurationError E-RUN-LOCKED naming the owner of `path`.
[[noreturn]] void refuse_locked(const std::string& path);

class LockFile {
 public:
  /// Takes `path`; a stale one is replaced. Errors: refuse_locked(); SystemError, OutputError.
  explicit LockFile(std::string path);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  const std::string& path() const { return path_; }
  /// "HOST PID START\n"
  const std::string& content() const { return content_; }
  /// When it was refreshed last, by the clock that stamps files.
  std::time_t stamped() const;
  void refresh() noexcept;

 private:
  void write(const std::string& temporary);
  void claim(const std::string& temporary);
  bool replace_stale(const std::string& temporary);

  std::string path_;
  std::string content_;
  int descriptor_ = -1;
};

}  // namespace vindex::results
