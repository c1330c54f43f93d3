// Owns the signals that ask a command to stop, and how it ends then.
#pragma once

#include "session.hpp"

#include <stop_token>
#include <string>

namespace vindex::apps {

/// From here on SIGTERM, SIGINT and SIGUSR1 request the stop of the returned token; a second SIGINT
/// ends the process at once. Errors: E-THREADS (70).
std::stop_token catch_stop_signals();

/// The ending of what a signal stopped; `kept` says what became of the work.
Ending stopped_early(const std::string& kept);

}  // namespace vindex::apps
