// Owns waiting that a stop ends: between attempts, and for as long as a server asks for.
#pragma once

#include <stop_token>

namespace vindex {

/// Returns after `seconds`; at once where they are not positive. Throws Stopped
/// (core/process/stop.hpp) as soon as `stop` is requested, also where it was before.
void wait_or_stop(double seconds, const std::stop_token& stop);

}  // namespace vindex
