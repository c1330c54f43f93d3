// Owns running independent tasks on a few threads, the first error ending them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace vindex::synth {

/// Calls body(worker, i) for every i < count, each once, from up to `threads` threads (at least
/// one); worker < threads tells whose buffers to use. The first exception stops the others after
/// their present task and is thrown here.
void for_each_index(std::size_t count, std::size_t threads,
                    const std::function<void(std::size_t worker, std::size_t i)>& body);

/// How many threads to use for tasks that hold `bytes` each: the cores, at most 8, and at most a
/// gigabyte together.
std::size_t thread_count(std::uint64_t bytes);

}  // namespace vindex::synth
