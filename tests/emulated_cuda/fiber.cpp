// Owns the switch of stacks: assembly for x86-64, the calls of ucontext elsewhere.
#include "fiber.hpp"

#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define VINDEX_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VINDEX_ASAN 1
#endif
#endif
#ifdef VINDEX_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifdef __x86_64__
// Saves what the System V ABI asks a callee to keep, stores the stack pointer to *save and
// continues from `load`.
extern "C" void vindex_emulated_switch(void** save, void* load);
asm(R"(
.text
.globl vindex_emulated_switch
.type vindex_emulated_switch,@function
vindex_emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size vindex_emulated_switch,.-vindex_emulated_switch
)");
#else
#include <ucontext.h>
#endif

namespace vindex::emulated {

namespace {

#ifdef VINDEX_ASAN
constexpr std::size_t kStackBytes = 512U << 10U;  // instrumented frames are several times larger
#else
constexpr std::size_t kStackBytes = 128U << 10U;
#endif
constexpr std::size_t kGuardBytes = 4096;

thread_local Fiber* starting = nullptr;  ///< the fiber whose first resume is under way

}  // namespace

Fiber::Fiber(Entry entry, void* argument) : entry_(entry), argument_(argument) {
  void* memory = ::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  (void)::mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<std::byte*>(memory) + kGuardBytes;
  prepare();
}

Fiber::~Fiber() {
#ifdef VINDEX_ASAN
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
#ifndef __x86_64__
  delete static_cast<ucontext_t*>(context_);
  delete static_cast<ucontext_t*>(outside_);
#endif
  (void)::munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes);
}

// Stacks lie whole pages apart: without an offset of their own the frames of all threads of a block
// would share the same few lines of the first cache.
std::size_t Fiber::colour() const {
  constexpr std::size_t kLine = 64;
  return reinterpret_cast<std::uintptr_t>(stack_) / kGuardBytes % 16 * (5 * kLine);
}

void Fiber::start(Fiber* self) {
#ifdef VINDEX_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->outside_bottom_, &self->outside_bytes_);
#endif
  self->entry_(self->argument_);
  __builtin_trap();  // an entry never returns
}

#ifdef __x86_64__

void Fiber::prepare() {
  // The first switch pops six registers and "returns" to a function that expects the stack as a
  // call would leave it: 8 bytes off 16.
  constexpr std::size_t kRegisters = 6;
  auto* top = reinterpret_cast<std::uintptr_t*>(stack_ + kStackBytes - colour());
  *--top = 0;  // where a return address would be
  *--top = reinterpret_cast<std::uintptr_t>(+[] { start(starting); });
  for (std::size_t i = 0; i < kRegisters; ++i) {
    *--top = 0;
  }
  context_ = top;
}

void Fiber::resume() {
  starting = this;
#ifdef VINDEX_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_, kStackBytes);
#endif
  vindex_emulated_switch(&outside_, context_);
#ifdef VINDEX_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef VINDEX_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, outside_bottom_, outside_bytes_);
#endif
  vindex_emulated_switch(&context_, outside_);
#ifdef VINDEX_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_bottom_, &outside_bytes_);
#endif
}

#else

void Fiber::prepare() {
  if (context_ == nullptr) {
    context_ = new ucontext_t;
    outside_ = new ucontext_t;
  }
  auto* context = static_cast<ucontext_t*>(context_);
  (void)::getcontext(context);
  context->uc_stack.ss_sp = stack_;
  context->uc_stack.ss_size = kStackBytes;
  context->uc_link = nullptr;
  ::makecontext(
      context, +[] { start(starting); }, 0);
}

void Fiber::resume() {
  starting = this;
#ifdef VINDEX_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack_, kStackBytes);
#endif
  (void)::swapcontext(static_cast<ucontext_t*>(outside_), static_cast<ucontext_t*>(context_));
#ifdef VINDEX_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
#ifdef VINDEX_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, outside_bottom_, outside_bytes_);
#endif
  (void)::swapcontext(static_cast<ucontext_t*>(context_), static_cast<ucontext_t*>(outside_));
#ifdef VINDEX_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &outside_bottom_, &outside_bytes_);
#endif
}

#endif

void Fiber::restart() {
#ifdef VINDEX_ASAN
  __asan_unpoison_memory_region(stack_, kStackBytes);
#endif
  prepare();
}

}  // namespace vindex::emulated
