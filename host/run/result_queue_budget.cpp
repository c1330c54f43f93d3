// Owns the sizes of the queues between workers and the results file.
#include <vindex/results/run_store.hpp>
#include <vindex/run/result_queue_budget.hpp>

#include <algorithm>

namespace vindex::run {

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

ResultQueueBudget result_queue_budget(std::uint64_t ram_budget, std::int64_t row_count,
                                      std::uint64_t largest_row) {
  ResultQueueBudget memory;
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

}  // namespace vindex::run
