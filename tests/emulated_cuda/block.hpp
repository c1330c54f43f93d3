// Owns the threads of one block: who may run, who waits for whom, and the shared memory. Blocks of
// one launch run one after another or, where the launch says so, together (execution.cpp).
#pragma once

#include "fiber.hpp"

#include <array>
#include <deque>
#include <emulated/execution.hpp>
#include <memory>
#include <string>
#include <vector>

namespace vindex::emulated {

/// Forgets what the block before left under way of bulk copies and products (warpgroup.cpp).
void begin_block();

/// Permutes `order` by a generator whose state is `random`.
void shuffle(std::vector<std::uint32_t>& order, std::uint64_t& random);

class Block {
 public:
  /// From begin() to is_over() with nothing in between: a block that runs alone.
  void run(uint3 index, dim3 size, std::size_t shared_bytes, const std::function<void()>& body,
           std::uint64_t& random);

  // The same in steps, for blocks that run together.
  void begin(uint3 index, dim3 size, std::size_t shared_bytes, const std::function<void()>& body);
  /// Lets every thread that may run go on until it waits.
  void run_round(std::uint64_t& random);
  bool can_run() const { return !runnable_.empty(); }
  bool is_over() const { return failed_ || finished_ == thread_count_; }
  bool has_failed() const { return failed_; }
  void report_deadlock();
  /// Looks at the guard of shared memory. Errors: KernelFault of whatever broke a rule.
  void end();
  /// Forgets threads that wait.
  void abandon();

  // Called by the thread that runs.
  [[noreturn]] void fail(const std::string& what, std::source_location where);
  void barrier(std::source_location where);
  int count(bool predicate, std::source_location where);
  void named_barrier(int id, int threads, bool wait, std::source_location where);
  void warp_operation(const char* kind, std::uint32_t mask, void* argument,
                      void (*complete)(void* const (&lanes)[32]), std::source_location where);
  void issue_copy(void* shared, const void* source, std::size_t bytes);
  void commit_copies();
  void wait_copies(std::size_t pending_groups);
  void sleep_on(const void* word, const char* what, std::source_location where,
                const LastWords& words);
  void wake(const void* word);
  std::uint32_t current() const { return current_; }
  std::uint32_t existing_lanes() const;
  unsigned char* shared() { return shared_; }

 private:
  struct Copy {
    void* shared;
    const void* source;
    std::size_t bytes;
  };
  /// What a switch to it reads comes first, in one line of the cache.
  struct alignas(64) Thread {
    explicit Thread(Block* owner) : fiber(&Block::thread_main, this), block(owner) {}
    Fiber fiber;
    Block* block;
    uint3 index{};  ///< threadIdx
    bool finished = false;
    const char* waits_for = nullptr;  ///< null: may run
    std::source_location waits_at;
    LastWords words;  ///< should it wait for ever
    std::vector<Copy> open_copies;
    std::deque<std::vector<Copy>> copy_groups;
  };
  /// Lanes of a warp that wait for each other.
  struct Meeting {
    const char* kind = nullptr;
    std::uint32_t mask = 0, arrived = 0;
    void* arguments[32] = {};
  };
  struct Barrier {
    std::vector<std::uint32_t> waiting;
    std::uint32_t arrived = 0;
    std::uint32_t threads = 0;
    std::source_location where;
  };

  static void thread_main(void* thread);
  void prepare_threads();
  void wait(const char* what, std::source_location where);
  void release(std::uint32_t thread);
  std::string name_of(std::uint32_t thread) const;

  uint3 index_{};
  dim3 size_{};
  std::uint32_t thread_count_ = 0;
  std::uint32_t current_ = 0;
  std::uint32_t finished_ = 0;
  const std::function<void()>* body_ = nullptr;
  std::vector<std::unique_ptr<Thread>> threads_;  ///< never shrinks; their stacks are used again
  std::vector<std::uint32_t> runnable_;           ///< in the next round
  std::vector<std::uint32_t> round_;              ///< in this one
  std::array<Barrier, 16> barriers_;
  int predicate_count_ = 0, counted_ = 0;
  std::vector<std::vector<Meeting>> meetings_;  ///< by warp
  struct Sleeper {
    const void* word;
    std::uint32_t thread;
  };
  std::vector<Sleeper> sleepers_;
  std::vector<unsigned char> shared_store_;
  unsigned char* shared_ = nullptr;
  std::size_t shared_bytes_ = 0;
  std::string failure_;
  bool failed_ = false;
};

}  // namespace vindex::emulated
