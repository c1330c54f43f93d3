// The memory of the emulated device, with owners and poison. Stricter than a device: a copy checks
// that each side lies where its kind says, cudaFree refuses foreign pointers, and writes beyond an
// allocation are found when it is freed.
#include "device_state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace vindex::emulated {

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kGuardBytes = 256;
constexpr unsigned char kGuard = 0x5A;

bool is_sane_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) {
    return true;
  }
  const bool to_device = is_device_memory(to, bytes);
  const bool from_device = is_device_memory(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

void set_device_memory(std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  device().memory_bytes = bytes;
}

std::size_t device_bytes_in_use() {
  const std::lock_guard lock(device().mutex);
  return device().in_use;
}

std::size_t take_peak_device_bytes() {
  const std::lock_guard lock(device().mutex);
  return std::exchange(device().peak, device().in_use);
}

bool is_device_memory(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  const auto* first = static_cast<const unsigned char*>(memory);
  auto after = device().allocations.upper_bound(first);
  if (after == device().allocations.begin()) {
    return false;
  }
  --after;
  return first + bytes <= after->first + after->second;
}

}  // namespace vindex::emulated

using vindex::emulated::device;
using vindex::emulated::failed;
using vindex::emulated::is_sane_copy;
using vindex::emulated::state_of_device;
using vindex::emulated::submit;

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device().mutex);
  *total = device().memory_bytes;
  *free = device().memory_bytes - std::min(device().memory_bytes, device().in_use);
  return state_of_device();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  using namespace vindex::emulated;
  const std::lock_guard lock(device().mutex);
  *memory = nullptr;
  if (device().broken) {
    return failed(state_of_device());
  }
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (bytes > device().memory_bytes - std::min(device().memory_bytes, device().in_use)) {
    return failed(cudaErrorMemoryAllocation);
  }
  const std::size_t whole = (bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* block = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, whole));
  if (block == nullptr) {
    return failed(cudaErrorMemoryAllocation);
  }
  poison(block, bytes);
  std::memset(block + bytes, kGuard, whole - bytes);
  device().allocations[block] = bytes;
  device().in_use += bytes;
  device().peak = std::max(device().peak, device().in_use);
  *memory = block;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  using namespace vindex::emulated;
  const std::lock_guard lock(device().mutex);
  if (memory == nullptr) {
    return cudaSuccess;
  }
  drain_all();
  auto* block = static_cast<unsigned char*>(memory);
  const auto found = device().allocations.find(block);
  if (found == device().allocations.end()) {
    return failed(cudaErrorInvalidValue);
  }
  const std::size_t bytes = found->second;
  device().allocations.erase(found);
  device().in_use -= bytes;
  bool whole = true;
  for (std::size_t i = 0; i < kGuardBytes / 2; ++i) {
    whole = whole && block[bytes + i] == kGuard;
  }
  std::free(block);
  if (!whole) {  // a destructor calls this: it may not throw, and the damage is done
    std::fprintf(stderr, "emulated CUDA: writes beyond %zu bytes of device memory\n", bytes);
    std::abort();
  }
  return state_of_device();
}
cudaError_t cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t /*stream*/) {
  return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t /*stream*/) { return cudaFree(memory); }

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int /*flags*/) {
  const std::lock_guard lock(device().mutex);
  *memory = nullptr;
  if (device().broken) {
    return failed(state_of_device());
  }
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*memory == nullptr && bytes > 0) {
    return failed(cudaErrorMemoryAllocation);
  }
  device().host_allocations.insert(*memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}
cudaError_t cudaFreeHost(void* memory) {
  const std::lock_guard lock(device().mutex);
  if (memory == nullptr) {
    return cudaSuccess;
  }
  vindex::emulated::drain_all();
  if (device().host_allocations.erase(memory) == 0) {
    return failed(cudaErrorInvalidValue);
  }
  std::free(memory);
  return state_of_device();
}
cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned int /*flags*/) {
  return memory == nullptr || bytes == 0 ? failed(cudaErrorInvalidValue) : cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  return memory == nullptr ? failed(cudaErrorInvalidValue) : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (!is_sane_copy(to, from, bytes, kind)) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    if (bytes > 0) {
      std::memcpy(to, from, bytes);
    }
  });
  return state_of_device();
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) {
    return failed(cudaErrorInvalidValue);
  }
  if (width == 0 || height == 0) {
    return cudaSuccess;
  }
  const std::size_t last = height - 1;
  if (!is_sane_copy(to, from, width, kind) ||
      !is_sane_copy(static_cast<char*>(to) + last * to_pitch,
                    static_cast<const char*>(from) + last * from_pitch, width, kind)) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  return state_of_device();
}
cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
}
cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  if (width > pitch ||
      (height > 0 && !vindex::emulated::is_device_memory(memory, (height - 1) * pitch + width))) {
    return failed(cudaErrorInvalidValue);
  }
  submit(stream, [=] {
    for (std::size_t row = 0; row < height; ++row) {
      std::memset(static_cast<char*>(memory) + row * pitch, value, width);
    }
  });
  return state_of_device();
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return bytes == 0 ? cudaSuccess : cudaMemset2DAsync(memory, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return cudaMemsetAsync(memory, value, bytes, nullptr);
}
