// Owns a file without a name for what does not fit into memory: the disk gives it back when it is
// closed, however the process ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex::write {

class ScratchFile {
 public:
  /// Errors: throw_output_error() with E-SCRATCH where no file can be made in `folder`.
  explicit ScratchFile(std::string folder);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// Where the bytes lie from now on. From any thread. Errors: SystemError E-SCRATCH.
  std::uint64_t append(std::span<const std::byte> bytes);
  /// Bytes that were appended. From any thread. Errors: SystemError E-SCRATCH.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// All bytes appended so far, mapped: pages come and go as memory allows. They are valid until
  /// this object ends; nothing is appended afterwards. Errors: SystemError E-SCRATCH, OutOfMemory.
  std::span<const std::byte> mapped();

 private:
  [[noreturn]] void fail(int error_number, const char* what) const;

  std::string folder_;
  int descriptor_ = -1;
  std::atomic<std::uint64_t> end_{0};
  std::span<const std::byte> mapping_;
};

}  // namespace vindex::write
