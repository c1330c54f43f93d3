// Owns how a file appears: written under a temporary name beside its own, fsynced, renamed, the
// folder fsynced. At every moment the final name is absent or holds a whole file; a killed process
// leaves nothing but temporary names, which the next one removes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex {

/// Ids of the errors of one kind of output. Scripts match them, so every command keeps its own.
struct OutputErrorIds {
  const char* create = "E-OUT-CREATE";
  const char* write = "E-OUT-WRITE";
  const char* rename = "E-OUT-RENAME";
  const char* folder = "E-OUT-FOLDER";
};

/// The error of an output that could not be created or renamed: SystemError 77 without permission,
/// 74 for a full disk or an I/O error, else OutputError 73.
[[noreturn]] void throw_output_error(const char* id, int error_number, const std::string& what);

/// Who removes what killed processes left under temporary names of a file.
enum class StaleTemporaries : std::uint8_t {
  kRemove,        ///< the next one that writes it
  kRemovedBefore  ///< its caller, which writes many files of one folder
};

/// A file under a temporary name; removed unless published. Not movable: writers refer to it.
class AtomicFile {
 public:
  /// Creates the temporary file. Errors: require_file_target() and throw_output_error() with
  /// ids.create.
  explicit AtomicFile(std::string path, const OutputErrorIds& ids = {},
                      StaleTemporaries stale = StaleTemporaries::kRemove);
  /// A file of a folder that is made aside: it grows at `staged`, where nothing may lie, and
  /// messages name `path`, where it will lie. rename() says that the folder has its name.
  AtomicFile(std::string path, std::string staged, const OutputErrorIds& ids);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_path_; }
  /// Open for reading and writing until flush(), -1 afterwards.
  int descriptor() const { return descriptor_; }

  /// Writes `bytes` at `offset`; may run concurrently. Errors: SystemError ids.write (74).
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Sets the length; what was never written reads as zero.
  void resize(std::uint64_t bytes);
  /// Writes everything through to the device and closes. Nothing where it is done already.
  void flush();
  /// Takes the final name; a regular file that lay there is replaced. After flush(), before
  /// sync_folder(): sets of files are renamed together. Errors: throw_output_error() with
  /// ids.rename.
  void rename();
  /// flush(), rename(), sync_folder().
  void publish();
  /// Removes the renamed file again.
  void withdraw() noexcept;

 private:
  void create();
  [[noreturn]] void fail_write(int error_number) const;

  std::string path_;
  std::string temporary_path_;
  OutputErrorIds ids_;
  int descriptor_ = -1;
  bool staged_ = false;
  bool renamed_ = false;
};

/// Makes renames in `folder` last. Errors: SystemError `id`.
void sync_folder(const std::string& folder, const char* id = "E-OUT-FOLDER");

/// Removes a file; no error if it is not there.
void remove_file(const std::string& path);

/// Throws SystemError E-OUT-SPACE (74) where the disk of `path` has less than `bytes` free.
void require_free_space(const std::string& path, std::uint64_t bytes);

/// A file in `folder` without a name, open for reading and writing: the disk gives it back when it
/// is closed, however the process ends. Errors: throw_output_error() with `id`.
int open_nameless_file(const std::string& folder, const char* id);

}  // namespace vindex
