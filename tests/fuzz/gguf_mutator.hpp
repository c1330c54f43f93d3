// Owns changing a GGUF file field by field: what was valid stays valid but for the field that was
// changed, so that checks deep in a file are reached. Bytes that are no GGUF file are rebuilt from
// what could be read of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace vindex::fuzz {

/// `bytes` with one to four fields changed, added, doubled or removed; at most `most` bytes.
/// Deterministic in `random`.
std::string mutated_gguf(const std::string& bytes, std::mt19937_64& random, std::size_t most);

}  // namespace vindex::fuzz
