// Owns making such memory: large pages touched by several threads and then registered, or the
// driver's own where that is refused.
#include "pinned_memory.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"

#include <algorithm>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

namespace vindex::kernels {

namespace {

constexpr std::size_t kLargePage = 2U << 20U;
constexpr std::size_t kSmallPage = 4096;
/// Smaller pieces come as they did: they cost little either way.
constexpr std::size_t kLeastRegistered = 16U << 20U;
/// Threads that touch pages; more gain nothing, memory is then the limit.
constexpr std::size_t kTouching = 4;

/// Null where there is no such memory or the driver refuses it.
void* registered_memory(std::size_t bytes) {
  const std::size_t rounded = ceil_divide(bytes, kLargePage) * kLargePage;
  void* const memory = std::aligned_alloc(kLargePage, rounded);
  if (memory == nullptr) {
    return nullptr;
  }
  (void)::madvise(memory, rounded, MADV_HUGEPAGE);
  auto* const pages = static_cast<volatile unsigned char*>(memory);
  const std::size_t count = rounded / kLargePage;
  for_each_index(count, std::min(count, kTouching), [&](std::size_t /*worker*/, std::size_t page) {
    for (std::size_t at = 0; at < kLargePage; at += kSmallPage) {
      pages[page * kLargePage + at] = 0;
    }
  });
  if (cudaHostRegister(memory, rounded, cudaHostRegisterPortable) != cudaSuccess) {
    (void)cudaGetLastError();
    std::free(memory);
    return nullptr;
  }
  return memory;
}

}  // namespace

void PinnedMemoryDeleter::operator()(void* memory) const noexcept {
  if (is_registered) {
    (void)cudaHostUnregister(memory);
    std::free(memory);
  } else {
    (void)cudaFreeHost(memory);
  }
}

PinnedMemory pinned_memory(std::size_t bytes) {
  if (bytes >= kLeastRegistered) {
    if (void* const memory = registered_memory(bytes)) {
      return {memory, {.is_registered = true}};
    }
  }
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw OutOfMemory("pinned staging memory", bytes);
  }
  check(status);
  return {memory, {}};
}

}  // namespace vindex::kernels
