// Owns one lock file: it appears whole, under a temporary name first, and holds "HOST PID START"
// for people and for other machines. Its owner also keeps an open file description lock (fcntl) on
// it, which the kernel takes back however the process ends.
//   local, NFSv4, Lustre with -o flock: a lock that is held is alive; one that
//     nobody holds is stale at once if it is of this machine.
//   locks of this machine alone (NFS with nolock or local_lock, Lustre with localflock): one of
//     another machine seems not to be held; it is stale after ten minutes without a refresh, by the
//     file server's clock.
//   no locks (fcntl fails): as before; on this machine its process and start time decide.
// Ages are differences of times that the file system stamped itself, so that clocks of machines do
// not matter.
#pragma once

#include "core/files/file_clock.hpp"

#include <ctime>
#include <memory>
#include <string>

namespace vindex::results {

/// Seconds without a refresh after which a lock of another machine is stale where nobody is seen to
/// hold it: of an output, where a mistake would be two runs on one file.
inline constexpr std::time_t kForeignSeconds = 600;

/// Whether nobody works under the lock `path` any more; true also where there is none.
bool is_stale_lock(const std::string& path, const FileClock& clock);

/// Removes the lock `path` if it is stale; never one that somebody has taken over meanwhile. False
/// where it is alive.
bool remove_stale_lock(const std::string& path, const FileClock& clock);

/// Throws ConfigurationError E-RUN-LOCKED naming the owner of `path`.
[[noreturn]] void refuse_locked(const std::string& path);

class LockFile {
 public:
  /// Takes `path`; a stale one is replaced. Errors: refuse_locked(); SystemError, OutputError.
  explicit LockFile(const std::string& path);
  /// The same, or null where somebody alive has it. `patience`: in place of kForeignSeconds.
  static std::unique_ptr<LockFile> try_take(const std::string& path, std::time_t patience);
  ~LockFile();
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;

  const std::string& path() const { return path_; }
  /// "HOST PID START\n"
  const std::string& content() const { return content_; }
  void refresh() noexcept;

 private:
  enum class Attempt { kOurs, kAlive, kAgain };

  LockFile(const std::string& path, std::time_t patience);
  void write(const std::string& temporary);
  bool claim(const std::string& temporary);
  Attempt replace_stale(const std::string& temporary);

  std::string path_;
  std::string content_;
  std::time_t patience_;
  int descriptor_ = -1;
  bool is_ours_ = false;
};

}  // namespace vindex::results
