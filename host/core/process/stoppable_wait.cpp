// Owns the sleep in short steps between which a stop is looked for.
#include "stoppable_wait.hpp"

#include "stop.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace vindex {

void wait_or_stop(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any nothing;  // but a stop wakes it
  std::unique_lock lock(mutex);
  if (seconds > 0) {
    nothing.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  }
  throw_if_stopped(stop);
}

}  // namespace vindex
