// Owns the queue of those that wait for memory, and leases that give it back.
#include <vindex/core/error.hpp>
#include <vindex/run/memory_budget.hpp>

namespace vindex::run {

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

}  // namespace vindex::run
