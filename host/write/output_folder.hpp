// Owns writing a set of files so that they appear together or not at all: they grow in a folder
// aside, which takes its name at the end; what was not published is removed.
#pragma once

#include "core/files/atomic_file.hpp"

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

/// A folder that receives files. Where it is absent it is made beside its place under a temporary
/// name, parents too, and renamed by publish(): at every moment it is absent or whole. Where it is
/// there and empty, its owner's and maybe a mount, files grow in a folder within it and are moved
/// out of that by publish(). Without publish() the destructor removes everything made here.
class OutputFolder {
 public:
  /// What killed processes left behind under temporary names is removed first. Errors: OutputError
  /// E-OUTPUT-NOT-EMPTY for a folder with content, E-OUTPUT-NOT-A-FOLDER; E-OUTPUT-CREATE as
  /// throw_output_error().
  explicit OutputFolder(std::string path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Removes what killed processes left beside and within the folder `path`, there or not: its
  /// constructor does, and who judges the folder before.
  static void remove_stale_temporaries(const std::string& path);

  const std::string& path() const { return path_; }
  /// Errors: SystemError E-OUT-SPACE (74) where its disk has less than `bytes` free.
  void require_space(std::uint64_t bytes) const;
  /// A new file of this folder, or of a folder in it ("organs/a.bin"), which is made where absent;
  /// the reference holds until the folder ends. Thread-safe. Errors: those of AtomicFile.
  AtomicFile& create(const std::string& name);
  /// Removes a file of create() again, which must not be used any more. Errors:
  /// throw_output_error() E-OUT-REMOVE.
  void drop(AtomicFile& file);
  /// A new file with this text.
  void write_text(const std::string& name, std::string_view text);
  /// Flushes all files and folders and gives them their names. Errors: OutputError
  /// E-OUTPUT-NOT-EMPTY, E-OUTPUT-EXISTS where somebody else made one of them meanwhile.
  void publish();

 private:
  void make_parents();
  void move_out();
  void remove_everything() noexcept;

  std::string path_;
  std::string staging_;  ///< where files grow
  bool is_new_ = false;  ///< nothing lay at path_
  bool published_ = false;
  std::vector<std::string> parents_;  ///< made here, outermost first
  std::mutex mutex_;
  std::set<std::string> inner_;     ///< folders made within, relative
  std::vector<std::string> moved_;  ///< folders that lie where they should, innermost first
  std::vector<std::unique_ptr<AtomicFile>> files_;
};

}  // namespace vindex::write
