// Owns the place where somebody may watch the launches of this thread one by one: probes that time
// kernels where no profiler is. Nobody watches in a measurement.
#pragma once

#include <cuda_runtime.h>

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

}  // namespace vindex::kernels
