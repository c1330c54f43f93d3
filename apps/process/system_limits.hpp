// Owns what the process asks of the system before anything else: descriptors, open files, memory,
// signals.
#pragma once

namespace vindex::apps {

/// Standard descriptors, limits of open files and of freed pages, signals of closed pipes.
void settle_process();

}  // namespace vindex::apps
