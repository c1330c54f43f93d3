// Owns the names of GGUF tensor type ids that are never stored, no longer exist, or belong to
// forks: they are refused by name, never guessed.
#pragma once

#include <cstdint>
#include <string>

namespace vindex::shard {

/// What is known of a type id that the table of element types does not hold, as the end of a
/// sentence. Sources: ggml include/ggml.h (removed and run-time types), microsoft/BitNet and
/// ikawrakow/ik_llama.cpp ggml.h.
std::string describe_refused_type(std::uint32_t id);

}  // namespace vindex::shard
