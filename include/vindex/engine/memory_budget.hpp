// Owns the bound on host memory of a run, --ram-budget: what of it finished rows take, and that
// work asks before it allocates and waits its turn. First come, first served, so that a large
// matrix is not starved by small ones behind it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace vindex::engine {

/// Errors: ConfigurationError E-BUDGET (78) where `what` needs more than `budget` bytes.
void require_budget(std::uint64_t budget, const std::string& what, std::uint64_t least);

/// The memory between a finished row and the results file: two queues, rows that wait for the next
/// part, the part's image, and the table of all rows. It is small where the budget is.
struct ResultQueueBudget {
  std::uint64_t queue_bytes = 0;    ///< what each of two queues may hold, or one row
  std::uint64_t pending_bytes = 0;  ///< what may wait for the next part, or one row
  std::uint64_t bytes = 0;          ///< all of it together, the rows themselves included, at most
};

/// Of a budget of `ram_budget` bytes, for a results file of `row_count` rows of which the largest
/// holds `largest_row` bytes of spectra and vectors; without rows there is no file, and it is 0.
ResultQueueBudget result_queue_budget(std::uint64_t ram_budget, std::int64_t row_count,
                                      std::uint64_t largest_row);

/// The smallest budget that leaves `units` bytes beside its result_queue_budget().
std::uint64_t budget_for(std::uint64_t units, std::int64_t row_count, std::uint64_t largest_row);

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

}  // namespace vindex::engine
