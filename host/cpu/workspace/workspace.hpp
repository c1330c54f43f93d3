// Owns what bounds one measure() call, since it goes wherever that goes: how it is told to end, and
// its host memory. Every large array is taken here, so that the promise of
// Backend::workspace_bytes can be enforced (a limit) and tested (a peak). Arrays start on 64-byte
// boundaries, which keeps the arithmetic of alignment-dependent kernels the same from run to run.
#pragma once

#include "backend/backend.hpp"
#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace vindex::cpu {

/// Bytes that an array of `count` elements of `size` bytes takes from a Workspace.
constexpr std::uint64_t array_bytes(std::int64_t count, std::size_t size) {
  constexpr std::uint64_t kAlignment = 64;
  const auto bytes = static_cast<std::uint64_t>(count) * size;
  return ceil_divide(bytes, kAlignment) * kAlignment;
}

/// Counts what is taken; `limit_bytes` 0 means no limit. Not thread-safe: one per matrix. Must
/// outlive its arrays.
class Workspace {
 public:
  explicit Workspace(std::uint64_t limit_bytes, std::stop_token stop = {})
      : limit_bytes_(limit_bytes), stop_(std::move(stop)) {}
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// Errors: OutOfMemory naming `purpose`, beyond the limit or when the system has no more.
  void* allocate(std::uint64_t bytes, const char* purpose) {
    void* const memory = limit_bytes_ != 0 && bytes > limit_bytes_ - used_bytes_
                             ? nullptr
                             : take(static_cast<std::size_t>(bytes));
    if (memory == nullptr) {
      throw OutOfMemory(purpose, bytes);
    }
    used_bytes_ += bytes;
    peak_bytes_ = used_bytes_ > peak_bytes_ ? used_bytes_ : peak_bytes_;
    return memory;
  }
  void release(void* memory, std::uint64_t bytes) noexcept {
    void* block = nullptr;
    std::memcpy(&block, static_cast<std::byte*>(memory) - sizeof(block), sizeof(block));
    std::free(block);
    used_bytes_ -= bytes;
  }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  const std::stop_token& stop() const { return stop_; }

 private:
  static constexpr std::size_t kAlignment = 64;

  /// Not std::aligned_alloc: glibc before 2.38 asks for more than it gives, so that what one matrix
  /// released is too small for the next of its shape, and every matrix touches fresh pages.
  static void* take(std::size_t bytes) {
    auto* const block = bytes > SIZE_MAX - kAlignment
                            ? nullptr
                            : static_cast<std::byte*>(std::malloc(bytes + kAlignment));
    if (block == nullptr) {
      return nullptr;
    }
    // malloc() aligns to 16 bytes, so the block's own address fits in front.
    const std::size_t skip = kAlignment - reinterpret_cast<std::uintptr_t>(block) % kAlignment;
    static_assert(alignof(std::max_align_t) >= sizeof(block));
    std::memcpy(block + skip - sizeof(block), &block, sizeof(block));
    return block + skip;
  }

  std::uint64_t limit_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t peak_bytes_ = 0;
  std::stop_token stop_;
};

/// An array of `count` uninitialised elements in a workspace. Move-only owner.
template <typename T>
class WorkArray {
  static_assert(std::is_trivial_v<T>);

 public:
  WorkArray() = default;
  WorkArray(Workspace& workspace, std::int64_t count, const char* purpose)
      : workspace_(&workspace), count_(count) {
    values_ = static_cast<T*>(workspace.allocate(array_bytes(count, sizeof(T)), purpose));
  }
  WorkArray(WorkArray&& other) noexcept
      : workspace_(std::exchange(other.workspace_, nullptr)),
        values_(std::exchange(other.values_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  WorkArray& operator=(WorkArray&& other) noexcept {
    if (this != &other) {
      reset();
      workspace_ = std::exchange(other.workspace_, nullptr);
      values_ = std::exchange(other.values_, nullptr);
      count_ = std::exchange(other.count_, 0);
    }
    return *this;
  }
  ~WorkArray() { reset(); }

  void reset() noexcept {
    if (values_ != nullptr) {
      workspace_->release(values_, array_bytes(count_, sizeof(T)));
      values_ = nullptr;
      count_ = 0;
    }
  }
  T* data() { return values_; }
  const T* data() const { return values_; }
  std::int64_t size() const { return count_; }
  T& operator[](std::int64_t i) { return values_[i]; }
  const T& operator[](std::int64_t i) const { return values_[i]; }
  std::span<T> span() { return {values_, static_cast<std::size_t>(count_)}; }

 private:
  Workspace* workspace_ = nullptr;
  T* values_ = nullptr;
  std::int64_t count_ = 0;
};

}  // namespace vindex::cpu
