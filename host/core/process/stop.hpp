// Owns how work under way is told to end: whoever asks for it holds a std::stop_source, the token
// goes down with the call, and loops look at it between blocks of work.
#pragma once

#include <stop_token>

namespace vindex {

/// What stopped work throws. No std::exception: nothing that handles errors of single matrices
/// shall take it for one.
struct Stopped {};

/// Throws Stopped once a stop was requested. Costs one load. Loops look at least about once in
/// every second of one core, so that a stopped call returns as soon as that.
void throw_if_stopped(const std::stop_token& stop);

/// Waits between attempts, and for as long as a server asks for.
/// Returns after `seconds`; at once where they are not positive. Throws Stopped
/// as soon as `stop` is requested, also where it was before.
void wait_or_stop(double seconds, const std::stop_token& stop);

}  // namespace vindex
