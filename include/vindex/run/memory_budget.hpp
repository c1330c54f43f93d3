// Owns the bound on host memory of a run: work asks before it allocates and waits its turn. First
// come, first served, so that a large matrix is not starved by small ones behind it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace vindex::run {

/// A counted amount of bytes shared by threads. Thread-safe.
class MemoryBudget {
 public:
  explicit MemoryBudget(std::uint64_t total_bytes) : free_(total_bytes), total_(total_bytes) {}
  std::uint64_t total_bytes() const { return total_; }

  /// Waits until `bytes` are free and every earlier caller was served. False where stop() was
  /// called meanwhile. Errors: expects() where `bytes` exceeds the total (it would wait for ever).
  bool acquire(std::uint64_t bytes);
  void release(std::uint64_t bytes);
  /// Wakes every waiter with false, for good.
  void stop();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t free_;
  std::uint64_t total_;
  std::uint64_t next_ticket_ = 0;
  std::uint64_t serving_ = 0;
  bool stopped_ = false;
};

/// Bytes taken from a budget that find their way back. The holder of the last share of the memory
/// they stand for holds this too. Thread-safe.
class MemoryLease {
 public:
  /// Null where the budget was stopped. Waits and fails as MemoryBudget::acquire().
  static std::shared_ptr<MemoryLease> take(std::shared_ptr<MemoryBudget> budget,
                                           std::uint64_t bytes);
  ~MemoryLease();
  MemoryLease(const MemoryLease&) = delete;
  MemoryLease& operator=(const MemoryLease&) = delete;
  /// Gives back `bytes` of it before its end. Errors: expects() beyond what is left.
  void give_back(std::uint64_t bytes);

 private:
  MemoryLease(std::shared_ptr<MemoryBudget> budget, std::uint64_t bytes)
      : budget_(std::move(budget)), bytes_(bytes) {}
  std::shared_ptr<MemoryBudget> budget_;
  std::mutex mutex_;
  std::uint64_t bytes_;
};

}  // namespace vindex::run
