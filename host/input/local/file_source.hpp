// Owns the sources of local files and of bytes in memory.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace vindex::input {

/// A regular local file opened read-only. Errors: MissingInputError (absent; a folder, device or
/// FIFO: named as what it is), SystemError 77 without permission.
std::unique_ptr<ByteSource> open_file_source(const std::string& path);

/// Bytes in memory (tests, fuzzing). `bytes` must outlive the source.
std::unique_ptr<ByteSource> make_memory_source(std::string name, std::span<const std::byte> bytes);

}  // namespace vindex::input
