// Owns where output goes: whether it may take the place of what lies under its name, and a sink for
// a translation (an export, decoded weights), which is a file that appears whole or standard
// output.
#pragma once

#include "atomic_file.hpp"

#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace vindex {

/// Throws OutputError `id` (73) where `path` is no name of a file, or what lies there is no regular
/// one: a rename would put a file in the place of a device or of a pipe that somebody reads.
void require_file_target(const std::string& path, const char* id = "E-OUTPUT-NOT-A-FILE");

/// Returns where nothing lies at `path`, or a regular file that `replace` allows to be replaced.
/// `flag`: what the user gives for that. Errors: those of require_file_target(); OutputError
/// E-OUTPUT-EXISTS for a file without `replace`; E-OUTPUT-RESULTS for an HDF5 file, with `replace`
/// too: measurements cost hours, a translation seconds.
void require_free_target(const std::string& path, bool replace, const char* flag = "--force");

/// Throws OutputError E-OUTPUT-SOURCE where one of `targets` is one of `inputs` or lies in a folder
/// that is one, whatever links and spellings lead to it. Empty paths are none.
void require_no_input(std::span<const std::string> targets, std::span<const std::string> inputs);

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
