// Owns the count of OpenBLAS's buffers: how many are mapped, how many callers and servers need one,
// and the mapping of more before a call would miss one.
#include "buffers.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <dlfcn.h>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace vindex::blas {

namespace {

/// Of OpenBLAS 0.3 on x86-64 (BUFFER_SIZE, common_x86_64.h); elsewhere it is less.
constexpr std::size_t kBufferBytes = std::size_t{128} << 20U;

struct Unmap {
  std::size_t bytes;
  void operator()(void* memory) const { ::munmap(memory, bytes); }
};
using Mapping = std::unique_ptr<void, Unmap>;

Mapping mapping_of(std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return {memory == MAP_FAILED ? nullptr : memory, Unmap{bytes}};
}

}  // namespace

bool has_room(std::size_t bytes) { return mapping_of(bytes) != nullptr; }

Buffers::Buffers(void* library) {
  if (library != nullptr) {
    take_ = reinterpret_cast<decltype(take_)>(::dlsym(library, "blas_memory_alloc"));
    give_back_ = reinterpret_cast<decltype(give_back_)>(::dlsym(library, "blas_memory_free"));
  }
}

void Buffers::reserve(std::int32_t callers) {
  const std::lock_guard lock(mutex_);
  require(servers_ + callers);
}

void Buffers::enter() {
  const std::lock_guard lock(mutex_);
  require(servers_ + callers_ + 1);
  ++callers_;
}

void Buffers::leave() noexcept {
  const std::lock_guard lock(mutex_);
  --callers_;
}

void Buffers::serve(std::int32_t servers) {
  const std::lock_guard lock(mutex_);
  servers = std::max(servers, servers_);
  require(servers + std::max(callers_, 1));
  servers_ = servers;
}

void Buffers::require(std::int32_t count) {
  if (count <= count_) {
    return;
  }
  {
    std::vector<Mapping> room;
    for (std::int32_t i = count_; i < count; ++i) {
      room.push_back(mapping_of(kBufferBytes));
      if (room.back() == nullptr) {
        throw OutOfMemory("OpenBLAS's buffers", kBufferBytes * static_cast<std::size_t>(count));
      }
    }
  }
  if (take_ != nullptr && give_back_ != nullptr) {
    map(static_cast<std::size_t>(count));
  }
  count_ = count;
}

/// The library hands out free buffers before it maps another one, so they are held until there are
/// as many as wanted. Those in use by other threads are known from before.
void Buffers::map(std::size_t count) {
  std::vector<void*> held;
  while (mapped_.size() < count) {
    void* const buffer = take_(0);
    if (buffer == nullptr) {  // it has no place for more
      break;
    }
    held.push_back(buffer);
    mapped_.insert(buffer);
  }
  for (void* const buffer : held) {
    give_back_(buffer);
  }
}

}  // namespace vindex::blas
