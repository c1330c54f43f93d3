// Owns a file that appears whole or not at all: written under a temporary name beside the target,
// fsynced, renamed.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace vindex::run {

/// The target "-" is standard output, written as it comes. Errors: OutputError E-OUTPUT (73) where
/// it cannot be created, SystemError E-WRITE or E-STDOUT (74) where writing fails. Unless commit()
/// was called the temporary file is removed.
class OutputFile {
 public:
  explicit OutputFile(std::string target);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string target_;
  std::string temporary_;
  int descriptor_ = -1;  ///< of the temporary file; standard output has none
};

}  // namespace vindex::run
