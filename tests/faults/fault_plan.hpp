// Owns which call of a process goes wrong, and how: read from the environment once, at the first
// call that is asked about.
//   VINDEX_FAULT_CALLS  names, comma-separated, or * (all but malloc); default *
//   VINDEX_FAULT_PATH   glob (fnmatch, * also matches /) of the path as given, or of what the
//                       descriptor has open; default *
//   VINDEX_FAULT_AT     the number of the matching call, from 1, at which faults begin; 0: none
//   VINDEX_FAULT_TIMES  how many calls from there on; all: every one; default 1
//   VINDEX_FAULT_DO     EIO, ENOSPC, ... (fail with it, nothing is done), short (half of what a
//                       read or write was to transfer), delay=MILLISECONDS, kill-before,
//                       kill-after, SIGINT, SIGTERM, SIGUSR1 (sent to the process before the
//                       call is made)
//   VINDEX_FAULT_BYTES  least size of an allocation that counts; default 0
//   VINDEX_FAULT_LOG    file to which every matching call adds a line "NUMBER NAME PATH", and one
//                       that goes wrong a line "! NUMBER NAME PATH"
//   VINDEX_FAULT_DATE   seconds since 1970 at which the calendar's clock stands still, so that
//                       files of two runs can be compared byte by byte
// A library that is loaded before all others: nothing here allocates, and its own system calls are
// made without the functions that it stands in for.
#pragma once

#include <cstddef>

namespace vindex::faults {

enum class Action { kNone, kFail, kShorten, kKillAfter };

/// What a call is to do; its errno where it fails.
struct Verdict {
  Action action = Action::kNone;
  int error_number = 0;
};

/// Counts the call `name` where it matches. `path` may be null: then `descriptor` tells, or nothing
/// where that is negative. Delays and killings before the call happen in here. Keeps errno.
Verdict ask(const char* name, const char* path, int descriptor);
/// The same for an allocation, which only matches where its name is asked for.
Verdict ask_memory(const char* name, std::size_t bytes);

/// The calendar's second, where it stands still; 0: it goes on.
long fixed_date();

/// Ends the process as a SIGKILL from outside would.
[[noreturn]] void kill_now();

}  // namespace vindex::faults
