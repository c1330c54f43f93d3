// Owns reading small files that others may have put there: tokens, credentials, references of a
// cache, records of other processes. What is no regular file is never read and never waited for.
//
// Also owns the question whether an open file is ours alone, before it is written.
#pragma once

#include "path_kind.hpp"

#include <cstddef>
#include <string>

namespace vindex {

/// What small_file() found.
struct SmallFile {
  PathKind kind = PathKind::kAbsent;  ///< absent too where it cannot be opened
  std::string text;                   ///< empty unless it is a regular file
};

/// The first `most` bytes at `path`, links followed. Never waits: a pipe or a device is not opened
/// for reading in a way that blocks. No errors.
SmallFile small_file(const std::string& path, std::size_t most = 4096);

/// The text alone; empty where there is none to read.
inline std::string read_small_file(const std::string& path, std::size_t most = 4096) {
  return small_file(path, most).text;
}

/// The same of a file that a user or a model names: through the gate of files that are read.
/// Errors: SystemError E-READ-OUTSIDE (reading_bounds.hpp).
std::string read_small_input(const std::string& path, std::size_t most = 4096);

/// True where the open descriptor is a regular file with one name: writing to it writes to nothing
/// else. A hard link to another file has two.
bool is_own_file(int descriptor);

}  // namespace vindex
