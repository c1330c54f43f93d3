// Owns the one way a kernel is launched: cudaLaunchKernelEx, so that the same text runs on a device
// and on the CPU (docs/developing/emulated-cuda.md), with the shared memory it asks for granted and
// its errors checked; and the places where somebody may watch launches one by one: probes that time
// kernels where no profiler is, and whoever looks for the kernel that fails. Nobody watches in a
// measurement.
#pragma once

#include "check.hpp"

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

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

/// Shared memory a block gets without asking (CUDA Programming Guide, technical specifications).
inline constexpr std::size_t kSharedBytesWithoutAsking = 48U << 10U;

/// The most shared memory that a block may ask for on the device of this thread.
inline int max_shared_bytes() {
  int device = 0;
  int bytes = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return bytes;
}

/// How the blocks of a launch lie beside each other.
enum class Blocks : std::uint8_t {
  kApart,     ///< in any order, so that none may wait for another
  kTogether,  ///< all under way at a time: a cooperative launch, refused where they do not fit
  kPairs,     ///< two neighbours in x are a cluster (sm_90): under way at a time, sharing memory
};

/// Launches `kernel` on `stream` with `shared_bytes` of dynamic shared memory; does not wait for
/// it, unless launches_are_awaited. Errors: DeviceError naming the kernel, also for an error of an
/// earlier one that shows here; OutOfMemory where there is none for its code or stacks.
template <typename... Parameters, typename... Arguments>
void launch(Blocks blocks, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "a kernel gets all its arguments");
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  if (blocks == Blocks::kTogether) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else if (blocks == Blocks::kPairs) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
  }
  if (blocks != Blocks::kApart) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  const auto* const address = reinterpret_cast<const void*>(kernel);
  const auto expect = [&](cudaError_t status, bool awaited) {
    if (status != cudaSuccess) {
      throw_launch_error(status, address, config, awaited);
    }
  };
  if (shared_bytes > kSharedBytesWithoutAsking) {
    // All there is, whatever this launch takes: the permission is the kernel's, not the launch's,
    // and what another thread sets for a smaller launch of the same kernel must not come between.
    expect(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                max_shared_bytes()),
           false);
  }
  if (launch_observer != nullptr) {
    launch_observer->before(address, stream);
  }
  expect(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), false);
  if (launches_are_awaited.load(std::memory_order_relaxed)) {
    expect(cudaStreamSynchronize(stream), true);
  }
  if (launch_observer != nullptr) {
    launch_observer->after(address, stream);
  }
}
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  launch(Blocks::kApart, kernel, grid, block, shared_bytes, stream, arguments...);
}

}  // namespace vindex::kernels
