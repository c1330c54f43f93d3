// Owns ending work, and waiting, at a request.
#include "stop.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace vindex {

void throw_if_stopped(const std::stop_token& stop) {
  if (stop.stop_requested()) {
    throw Stopped{};
  }
}

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
