// Owns the shares of a budget, the queue of those that wait for memory, and leases that give it
// back.
#include <vindex/core/error.hpp>
#include <vindex/engine/memory_budget.hpp>
#include <vindex/results/run_store.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::engine {

namespace {

/// Seconds of a fast device's output, whose spectra are 16 KiB each.
constexpr std::uint64_t kQueueBytes = 24U << 20U;
/// Of a small budget, one of so many parts.
constexpr std::uint64_t kQueueShare = 64;
constexpr std::uint64_t kPendingShare = 24;
/// Rows that wait for their part, its image, and the image while it grows.
constexpr std::uint64_t kPartCopies = 3;
/// Rows that are in no queue: at the threads that fill and empty them.
constexpr std::uint64_t kRowsInHand = 2;

}  // namespace

void require_budget(std::uint64_t budget, const std::string& what, std::uint64_t least) {
  if (least > budget) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("--ram-budget of {} bytes is too small: {} needs {} bytes at least",
                                budget, printable(what), least));
  }
}

ResultQueueBudget result_queue_budget(std::uint64_t ram_budget, std::int64_t row_count,
                                      std::uint64_t largest_row) {
  ResultQueueBudget memory;
  if (row_count == 0) {
    return memory;
  }
  memory.queue_bytes = std::min(kQueueBytes, ram_budget / kQueueShare);
  memory.pending_bytes = std::min(results::kMaxPendingBytes, ram_budget / kPendingShare);
  memory.bytes = 2 * std::max(memory.queue_bytes, largest_row) +
                 kPartCopies * std::max(memory.pending_bytes, largest_row) +
                 kRowsInHand * largest_row +
                 static_cast<std::uint64_t>(row_count) * results::kStoredRowBytes;
  return memory;
}

std::uint64_t budget_for(std::uint64_t units, std::int64_t row_count, std::uint64_t largest_row) {
  // A byte more of budget makes less than a sixth of a byte of hand-over: this ends soon.
  std::uint64_t budget = units;
  while (true) {
    const std::uint64_t wanted = units + result_queue_budget(budget, row_count, largest_row).bytes;
    if (wanted <= budget) {
      return budget;
    }
    budget = wanted;
  }
}

bool MemoryBudget::acquire(std::uint64_t bytes) {
  expects(bytes <= total_, "a unit of work was admitted that exceeds the memory budget");
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return stopped_ || (ticket == serving_ && bytes <= free_); });
  if (stopped_) {
    return false;
  }
  free_ -= bytes;
  ++serving_;
  changed_.notify_all();
  return true;
}

void MemoryBudget::release(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_ += bytes;
  changed_.notify_all();
}

void MemoryBudget::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::shared_ptr<MemoryLease> MemoryLease::take(std::shared_ptr<MemoryBudget> budget,
                                               std::uint64_t bytes) {
  if (!budget->acquire(bytes)) {
    return nullptr;
  }
  return std::shared_ptr<MemoryLease>(new MemoryLease(std::move(budget), bytes));
}

MemoryLease::~MemoryLease() { budget_->release(bytes_); }

void MemoryLease::give_back(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    expects(bytes <= bytes_, "memory given back that was not taken");
    bytes_ -= bytes;
  }
  budget_->release(bytes);
}

}  // namespace vindex::engine
