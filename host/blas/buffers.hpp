// Owns the buffers of one loaded OpenBLAS. Every call under way works in one of 128 MiB of
// addresses, which the library maps when a call finds none free and keeps for ever; where the
// system gives it none it asks again for ever (blas_memory_alloc, driver/others/memory.c), deaf to
// signals. So they are asked for here first, and had before a call needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>

namespace vindex::blas {

/// True where the process can have `bytes` more of addresses; nothing is kept.
bool has_room(std::size_t bytes);

class Buffers {
 public:
  /// Of a library that dlopen() gave; nullptr: there are none to map, only to ask for.
  explicit Buffers(void* library);

  /// Has buffers for `callers` threads at a time. Errors: OutOfMemory.
  void reserve(std::int32_t callers);
  /// A thread that calls the library from here on, until leave(). Errors: OutOfMemory.
  void enter();
  void leave() noexcept;
  /// Has a buffer for each of `servers` threads that the library starts, which keep theirs, beside
  /// those of its callers. Errors: OutOfMemory.
  void serve(std::int32_t servers);

 private:
  void require(std::int32_t count);
  void map(std::size_t count);

  // Exported, in no header of the library; where they are missing room is all that is asked for.
  void* (*take_)(int) = nullptr;
  void (*give_back_)(void*) = nullptr;
  std::mutex mutex_;
  std::int32_t count_ = 0, callers_ = 0, servers_ = 0;
  std::set<void*> mapped_;
};

/// A thread among the callers of a library, while it lives.
class Caller {
 public:
  explicit Caller(Buffers& buffers) : buffers_(buffers) { buffers_.enter(); }
  ~Caller() { buffers_.leave(); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  Buffers& buffers_;
};

}  // namespace vindex::blas
