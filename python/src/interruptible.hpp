// Owns calls that Ctrl-C ends: the work runs on a thread of its own without the interpreter's lock,
// while the caller looks for signals, which Python handles on its main thread alone.
#pragma once

#include <functional>
#include <nanobind/nanobind.h>
#include <optional>
#include <stop_token>
#include <utility>

namespace vindex_python {

/// Runs `work` to its end. Called with the interpreter's lock, which `work` does not have. What it
/// throws is thrown here. A signal whose handler raises an exception (Ctrl-C: KeyboardInterrupt)
/// requests the stop of `work`, waits for its end, and raises that exception, whatever `work` gave.
/// Errors: vindex::Error E-THREADS (70) where no thread can be started.
void run_interruptible(const std::function<void(std::stop_token)>& work);

/// The same for `work` that gives something.
template <typename Work>
auto interruptible(Work&& work) {
  std::optional<decltype(work(std::stop_token()))> result;
  run_interruptible([&](std::stop_token stop) { result.emplace(work(std::move(stop))); });
  return std::move(*result);
}

}  // namespace vindex_python
