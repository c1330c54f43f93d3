// Owns opening devices while a model is opened: a context, libraries and self-tests take most of a
// second, headers and names of a large or remote model as much.
#pragma once

#include "backends.hpp"

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace vindex::engine {

class DevicesAhead {
 public:
  using Open = std::function<OpenedDevices()>;

  /// Begins where the settings allow a device and the model seems to be there: a mistyped name
  /// shall not wait for a context. `settings` must outlive it. Errors: as path_kind().
  explicit DevicesAhead(const RunSettings& settings);
  /// Begins to call `open` on a thread, or leaves it to take() where `at_once` is false or the
  /// system has no thread to give.
  DevicesAhead(Open open, bool at_once);
  /// Waits for what has begun.
  ~DevicesAhead() = default;
  DevicesAhead(const DevicesAhead&) = delete;
  DevicesAhead& operator=(const DevicesAhead&) = delete;

  /// Waits; once. Errors: what `open` throws.
  OpenedDevices take();

 private:
  Open open_;
  OpenedDevices opened_;
  std::exception_ptr error_;
  std::vector<std::jthread> thread_;  ///< none: take() opens
};

}  // namespace vindex::engine
