// Owns a fiber: a function on a stack of its own that is resumed and suspends itself. Fibers of a
// block run on one OS thread, so a kernel is debugged and sanitized like any other function.
#pragma once

#include <cstddef>

namespace vindex::emulated {

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  /// Runs `entry(argument)` on the first resume(); it must suspend for ever instead of returning.
  Fiber(Entry entry, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From outside: continues the fiber until it suspends.
  void resume();
  /// From outside: asks for what the next resume() reads.
  void prefetch() const {
    __builtin_prefetch(context_);
    __builtin_prefetch(static_cast<const std::byte*>(context_) + 64);
    __builtin_prefetch(static_cast<const std::byte*>(context_) + 128);
  }
  /// From inside: back to the one who resumed.
  void suspend();
  /// From outside: forgets what the fiber was doing; the next resume() calls `entry` again. Nothing
  /// on its stack is destroyed.
  void restart();

 private:
  static void start(Fiber* self);
  void prepare();
  std::size_t colour() const;  ///< bytes of the stack's top that are left out

  void* context_ = nullptr;  ///< the fiber while suspended
  void* outside_ = nullptr;  ///< the one who resumed
  Entry entry_;
  void* argument_;
  std::byte* stack_ = nullptr;  ///< lowest usable byte; a page that traps lies below
  void* fake_stack_ = nullptr;  ///< AddressSanitizer's, of the fiber
  const void* outside_bottom_ = nullptr;
  std::size_t outside_bytes_ = 0;
};

}  // namespace vindex::emulated
