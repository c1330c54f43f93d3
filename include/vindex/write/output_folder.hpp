// Owns writing a set of files so that they appear together or not at all. A folder that is not
// there grows under a temporary name beside its own and is renamed at the end: a killed process
// leaves nothing under the final name. In a folder that is there (empty) every file grows under a
// temporary name and is renamed at the end. What was not published is removed.
#pragma once

#include <vindex/core/atomic_file.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::write {

/// Ids of what is written here: E-OUTPUT-WRITE for every step.
inline constexpr OutputErrorIds kOutputErrors = {"E-OUTPUT-WRITE", "E-OUTPUT-WRITE",
                                                 "E-OUTPUT-WRITE", "E-OUTPUT-WRITE"};

/// A folder that receives files; created with its parents where absent. Without publish() the
/// destructor removes the files and the folders that were created here.
class OutputFolder {
 public:
  /// What killed processes left behind under temporary names is removed first. Errors: OutputError
  /// E-OUTPUT-NOT-EMPTY for a folder with content, E-OUTPUT-NOT-A-FOLDER, E-OUTPUT-CREATE;
  /// SystemError 77 without permission.
  explicit OutputFolder(std::string path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const std::string& path() const { return path_; }
  /// Errors: SystemError E-OUT-SPACE (74) where the disk has less than `bytes` free.
  void require_space(std::uint64_t bytes) const;
  /// A new file of this folder, or of a folder in it ("organs/a.bin"), which is made where absent;
  /// the reference holds until the folder ends. Thread-safe. Errors: OutputError E-OUTPUT-EXISTS
  /// where somebody else made it meanwhile; those of AtomicFile.
  AtomicFile& create(const std::string& name);
  /// Removes a file of create() again, which must not be used any more.
  void drop(AtomicFile& file);
  /// A new file with this text.
  void write_text(const std::string& name, std::string_view text);
  /// Flushes all files, renames them in the order of creation, flushes the folder and gives it its
  /// name. Errors: OutputError E-OUTPUT-NOT-EMPTY where somebody else filled a folder of that name.
  void publish();

 private:
  void create_parents();

  std::string path_;
  std::string work_;  ///< where files grow: path_, or a temporary name beside it
  bool published_ = false;
  std::vector<std::string> parents_;  ///< made here, outermost first
  std::mutex mutex_;
  std::set<std::string> inner_;  ///< folders made within, by their paths
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace vindex::write
