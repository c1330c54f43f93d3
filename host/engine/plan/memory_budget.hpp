// Owns the bound on host memory of a run, --ram-budget: how much that is where the user does not
// say (the least of what the machine, the control groups around this process and the batch system
// leave it), what of it finished rows take, and that work asks before it allocates and waits its
// turn. First come, first served, so that a large matrix is not starved by small ones behind it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

/// Something that bounds the memory of this process.
struct MemoryLimit {
  std::string source;      ///< "MemAvailable", "memory.max", "SLURM_MEM_PER_NODE"
  std::string where;       ///< file it stands in; empty: the environment
  std::uint64_t left = 0;  ///< bytes that may still be taken
};

/// Variables of Slurm as they stand in the environment; empty: not set. Memory is in MiB, 0 stands
/// for all of a node.
struct SlurmVariables {
  std::string mem_per_node = {};
  std::string mem_per_cpu = {};
  std::string cpus_on_node = {};
};

/// What a run may take, and why no more.
struct RamBudget {
  std::uint64_t bytes = 0;
  MemoryLimit limit;                  ///< that decided
  std::vector<std::string> warnings;  ///< one line for each variable that is passed over

  /// "--ram-budget", "three quarters of what memory.max leaves".
  std::string source_text() const;
};

/// What the system says: MemAvailable, and every limit of the control groups from the one of this
/// process up to the root (version 1 and 2; the page cache that they would give up first is left).
/// A file that is absent or no number is no limit. `root`: the folder that holds proc and sys.
std::vector<MemoryLimit> system_memory_limits(const std::string& root = "/");

/// Three quarters of the least of `limits` and of what Slurm grants. Nothing known: 3 GiB.
RamBudget default_ram_budget(std::vector<MemoryLimit> limits, const SlurmVariables& slurm);

}  // namespace vindex::engine
