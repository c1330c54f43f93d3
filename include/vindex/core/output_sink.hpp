// Owns where a translation goes (an export, decoded weights): a file that appears whole, or
// standard output.
#pragma once

#include <vindex/core/atomic_file.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace vindex {

/// Bytes written in order. Not thread-safe.
class OutputSink {
 public:
  /// `target` "-": standard output, written as it comes. Errors: those of AtomicFile; E-STDOUT
  /// (74).
  explicit OutputSink(const std::string& target, const OutputErrorIds& ids = {});
  void write(std::span<const std::byte> bytes);
  /// A file takes its final name only now.
  void commit();

 private:
  std::optional<AtomicFile> file_;
  std::uint64_t written_ = 0;
};

}  // namespace vindex
