// Owns the names of GGUF tensor type ids that are never stored, no longer exist, or belong to
// forks: they are refused by name, never guessed.
#pragma once

#include <cstdint>
#include <string>

namespace vindex::gguf {

/// What is known of a type id that is refused, as the end of a sentence. `bitnet`: the file says
/// general.architecture = bitnet*, whose fork reuses ids. Sources: ggml include/ggml.h (removed and
/// run-time types), microsoft/BitNet and ikawrakow/ik_llama.cpp ggml.h.
std::string describe_refused_type(std::uint32_t id, bool bitnet);

/// Whether ggml had the type and removed it.
bool was_removed(std::uint32_t id);

}  // namespace vindex::gguf
