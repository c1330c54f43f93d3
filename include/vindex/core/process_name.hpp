// Owns how processes know each other: the machine and process that temporary files and locks name,
// and what small files of other processes say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace vindex {

/// This machine's name, letters, digits, '-' and '_' only.
const std::string& host_name();

/// True where process `pid` of this machine is certainly gone.
bool process_is_gone(std::int64_t pid);

/// The first `most` bytes of a file that another process may replace; empty where it cannot be
/// read. Never waits, not for a writer of a pipe either.
std::string read_small_file(const std::string& path, std::size_t most = 4096);

}  // namespace vindex
