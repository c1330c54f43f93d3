// Owns checking the files of a model against the digests that are published for them. It reads them
// whole: nothing less says that every byte is the published one.
#pragma once
#include "model_files.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::input {

/// Compares the SHA-256 of every file of weights with that of ModelStore::published_sha256(),
/// several files at once by at most `threads` threads (0: as many as there are cores, at most 8),
/// 32 MiB of memory each. Returns how many bytes were read. Errors: UsageError E-VERIFY (64),
/// before anything is read, naming a file for which none is published; FormatError E-DIGEST (65)
/// where one differs; those of reading; Stopped.
std::uint64_t verify_files(const ModelFiles& files, std::int32_t threads,
                           const std::stop_token& stop);

}  // namespace vindex::input
