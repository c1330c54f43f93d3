// Owns running independent tasks on a few threads, the first error in their order ending them all,
// and the starting of threads where the system may have none to give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace vindex {

/// Cores this process may use, at least 1: those of its affinity mask, and no more than the CPU
/// quota of its control groups (core/process/control_groups.hpp; asked once) gives it time for.
std::int32_t usable_cores();

/// How many threads to use for tasks that hold `bytes` each: `wanted`, or where that is 0 the
/// usable cores, at most 8, and at most a gigabyte together.
std::size_t thread_count(std::uint64_t bytes, std::int32_t wanted = 0);

/// Calls body(worker, i) for every i < count, each once, from up to `threads` threads (at least
/// one, the caller's among them); worker < threads says whose buffers to use. Tasks begin in
/// ascending order. After an exception none begins any more, and that of the smallest i is thrown
/// here: the same one whatever the threads' timing.
void for_each_index(std::size_t count, std::size_t threads,
                    const std::function<void(std::size_t worker, std::size_t i)>& body);

/// Starts a thread of `body` and adds it to `threads`; false where the system has none to give (a
/// limit on processes, no memory for its stack).
bool start_thread(std::vector<std::jthread>& threads, std::function<void()> body);

/// Throws Error E-THREADS (70): not one thread could be started for `purpose`.
[[noreturn]] void throw_no_thread(const char* purpose);

}  // namespace vindex
