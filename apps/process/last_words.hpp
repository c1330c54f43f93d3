// Owns the last line of a process that nobody else can end in good order: one reason and an exit
// code all the same.
#pragma once

#include <vindex/error.hpp>

namespace vindex::apps {

inline constexpr const char* kOutOfMemory =
    "vindex: E-MEMORY: out of memory; a smaller --ram-budget or fewer --threads may help\n";

/// Ends the process without its exit handlers. Every thread was joined on the way here; what
/// libhdf5 does at an exit does not survive an allocation that failed inside it.
[[noreturn]] void end_without_memory(ExitCode code);

/// To be called where main() returns: what ends the process before that is a library.
void main_returns();

}  // namespace vindex::apps
