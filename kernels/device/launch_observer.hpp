// Owns the places where somebody may watch launches one by one: probes that time kernels where no
// profiler is, and whoever looks for the kernel that fails. Nobody watches in a measurement.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

namespace vindex::kernels {

class LaunchObserver {
 public:
  LaunchObserver() = default;
  virtual ~LaunchObserver() = default;
  LaunchObserver(const LaunchObserver&) = delete;
  LaunchObserver& operator=(const LaunchObserver&) = delete;

  /// Around the launch of `kernel` (its host address) on `stream`.
  virtual void before(const void* kernel, cudaStream_t stream) = 0;
  virtual void after(const void* kernel, cudaStream_t stream) = 0;
};

/// Of this thread; null: nobody.
inline thread_local LaunchObserver* launch_observer = nullptr;

/// Of all threads: every launch is waited for, so that a fault is told of the kernel that did it
/// and not of whatever looks next. Slow.
inline std::atomic<bool> launches_are_awaited = false;

}  // namespace vindex::kernels
