// Owns how a file appears: under a temporary name, fsynced, checked, renamed, the folder fsynced.
// At every moment the final name is absent or holds a whole file. Errors of creating: SystemError
// 77 (no permission) or 74 (disk full, I/O), else OutputError 73.
#pragma once

#include "storage.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace vindex::results {

/// Folder of `path` ("." if it names none) and the last component.
std::string folder_of(const std::string& path);
std::string name_of(const std::string& path);

/// This machine's name and this process, as they stand in temporary and lock names.
const std::string& host_name();
/// The first `most` bytes of a file that another process may replace; empty where it cannot be
/// read. Never waits, not for a writer of a pipe either.
std::string read_small_file(const std::string& path, std::size_t most = 4096);
/// True where process `pid` of this machine is certainly gone.
bool process_is_gone(std::int64_t pid);

[[noreturn]] void throw_output_error(const char* id, int error_number, const std::string& what);

/// A file under a temporary name beside its final one; removed unless published.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& final_path);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  FileStorage& storage() { return storage_; }
  const std::string& path() const { return path_; }
  /// fsync, then `check` (throws if what is on disk is not right), rename, fsync of the folder.
  void publish(const std::function<void(const std::string& path)>& check);

 private:
  std::string final_path_;
  std::string path_;
  FileStorage storage_;
  bool published_ = false;
};

/// Removes temporary files of killed processes in `folder` whose final name begins with `prefix`.
void remove_leftovers(const std::string& folder, const std::string& prefix);

/// Throws SystemError ENOSPC where the disk of `path` has less than `bytes` free.
void require_free_space(const std::string& path, std::uint64_t bytes);

void fsync_folder(const std::string& folder);
/// Removes a file; no error if it is not there.
void remove_file(const std::string& path);

}  // namespace vindex::results
