// Owns a sink for a translation (an export, decoded weights): a file that appears whole, or
// standard output.
#pragma once

#include "atomic_file.hpp"

#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace vindex {

/// Writes all of `bytes` to standard output, past the buffer of <cstdio>. Errors: SystemError
/// E-STDOUT.
void write_standard_output(std::span<const std::byte> bytes);

/// Whether `error` says that the reader of standard output has gone (`| head`): no fault of the
/// writer, which then ends quietly. A full disk is no such case.
bool is_closed_output(const Error& error);

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
