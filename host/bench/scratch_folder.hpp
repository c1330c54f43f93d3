// Owns a folder for what a benchmark writes, removed at the end.
#pragma once

#include <filesystem>
#include <string>

namespace vindex::bench {

class ScratchFolder {
 public:
  /// A new folder in `parent`. Errors: SystemError.
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace vindex::bench
