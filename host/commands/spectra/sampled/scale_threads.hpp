// Owns threads that look at the weights of matrices which a device is done with, so that the device
// does not wait for the host to look at them one by one.
#pragma once

#include "engine/units/bounded_queue.hpp"

#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

namespace vindex::commands {

/// Thread-safe. Errors of the constructor: E-THREADS (70) where not one thread can be started.
class ScaleThreads {
 public:
  explicit ScaleThreads(std::int32_t count);
  /// After the last task.
  ~ScaleThreads();
  ScaleThreads(const ScaleThreads&) = delete;
  ScaleThreads& operator=(const ScaleThreads&) = delete;

  /// Returns at once. `task` throws nothing.
  void run(std::function<void()> task) { tasks_.push(std::move(task)); }

 private:
  engine::BoundedQueue<std::function<void()>> tasks_{std::numeric_limits<std::size_t>::max()};
  std::vector<std::jthread> threads_;
};

}  // namespace vindex::commands
