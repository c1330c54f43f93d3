// Owns running independent tasks on a few threads, the first error ending them all.
#pragma once

#include <cstddef>
#include <functional>

namespace vindex::synth {

/// Calls body(i) for every i < count, each once, from up to `threads` threads (at least one); the
/// first exception stops the others after their present task and is thrown here.
void for_each_index(std::size_t count, unsigned threads,
                    const std::function<void(std::size_t)>& body);

}  // namespace vindex::synth
