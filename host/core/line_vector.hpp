// Owns vectors that begin where a line of the cache does: loads of 32 bytes that reach over two
// lines take twice as long.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace vindex {

inline constexpr std::size_t kCacheLineBytes = 64;

/// Errors: std::bad_alloc.
template <typename T>
struct LineAllocator {
  using value_type = T;
  LineAllocator() = default;
  template <typename Other>
  LineAllocator(const LineAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(kCacheLineBytes)));
  }
  void deallocate(T* freed, std::size_t /*count*/) {
    ::operator delete(freed, std::align_val_t(kCacheLineBytes));
  }
  bool operator==(const LineAllocator& /*other*/) const = default;
};

template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace vindex
