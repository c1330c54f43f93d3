// Owns writing a set of files so that they appear together or not at all: every file grows under a
// temporary name and is renamed at the end; what was not published is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::synth {

/// A file written at `path` + ".partial" until publish() renames it. Move-free; removes the
/// temporary file unless published.
class OutputFile {
 public:
  /// Errors: OutputError where the file exists already; SystemError otherwise.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Writes `bytes` at `offset`; may run concurrently. Errors: SystemError 74 (full disk: errno
  /// ENOSPC).
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Sets the length; what was never written reads as zero.
  void resize(std::uint64_t bytes);
  /// Writes everything through to the device and closes. Errors: SystemError 74.
  void flush();
  /// Renames to path(); after flush().
  void publish();
  /// Removes the published file again.
  void withdraw() noexcept;

 private:
  std::string path_;
  std::string partial_path_;
  int descriptor_ = -1;
  bool published_ = false;
};

/// A folder that receives files; created with its parents where absent. Without publish() the
/// destructor removes the files and the folder if it was created here.
class OutputFolder {
 public:
  /// Errors: OutputError E-OUTPUT-NOT-EMPTY for a folder with content, E-OUTPUT-NOT-A-FOLDER,
  /// E-OUTPUT-CREATE; SystemError 77 without permission.
  explicit OutputFolder(std::string path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// A new file of this folder; the reference holds until the folder ends.
  OutputFile& create(const std::string& name);
  /// A new file with this text.
  void write_text(const std::string& name, std::string_view text);
  /// Flushes all files, renames them in the order of creation, flushes the folder.
  void publish();

 private:
  std::string path_;
  bool created_ = false;
  bool published_ = false;
  std::vector<std::unique_ptr<OutputFile>> files_;
};

}  // namespace vindex::synth
