// Owns what tests may set of the emulated device, and the queues of its streams.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

namespace vindex::emulated {

/// When work on a stream happens.
enum class Ordering {
  kAtOnce,  ///< when it is issued
  /// When something waits for it, and then only what that something needs: a missing event or
  /// synchronisation reads poison.
  kLate
};
void set_ordering(Ordering ordering);

/// False, the default: a fault of a kernel is KernelFault, thrown where the kernel is launched or
/// waited for, and the device goes on. True: as on a device, the launch succeeds and from then on
/// every call of the runtime and the libraries fails, whatever was queued is dropped, and memory
/// can only be given back, until reset_device() or another call of this function, which stand for a
/// new process.
void set_sticky_errors(bool sticky);
void reset_device();

/// Whether a fault has made the device unusable.
bool is_device_broken();

/// Makes XsyevBatched, not Xsyevd, wrong by so much. 0: right.
void set_batched_eigenvalue_error(double relative);

/// What the device says it is; it stays able to do everything. Default 9.0.
void set_compute_capability(int major, int minor);

/// What cudaFuncGetName says of `function`, as the compiler mangles it; others have no name here.
void set_function_name(const void* function, const char* mangled);

/// Memory of the device; what cudaMalloc refuses beyond. Default 8 GiB.
void set_device_memory(std::size_t bytes);
/// Bytes of device memory allocated now.
std::size_t device_bytes_in_use();
/// The most since the last call of this function.
std::size_t take_peak_device_bytes();

/// Runs `work` in `stream`'s order (null: the legacy stream, which waits for all and at once).
void submit(cudaStream_t stream, std::function<void()> work);

/// True where [memory, memory + bytes) lies in one allocation of cudaMalloc.
bool is_device_memory(const void* memory, std::size_t bytes);

}  // namespace vindex::emulated
