// Owns the starting of threads where the system may have none to give.
#pragma once

#include <functional>
#include <thread>
#include <vector>

namespace vindex {

/// Starts a thread of `body` and adds it to `threads`; false where the system has none to give (a
/// limit on processes, no memory for its stack).
bool start_thread(std::vector<std::jthread>& threads, std::function<void()> body);

/// Throws Error E-THREADS (70): not one thread could be started for `purpose`.
[[noreturn]] void throw_no_thread(const char* purpose);

}  // namespace vindex
