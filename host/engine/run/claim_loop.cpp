// Owns the rounds over the shares that are not finished.
#include "claim_loop.hpp"

#include <algorithm>
#include <utility>

namespace vindex::engine {

namespace {

/// Between two rounds over the shares that other processes have.
constexpr std::chrono::seconds kClaimRound(1);
/// Shares tried at a time: each costs a few calls of a file system that may be slow.
constexpr int kClaimTries = 32;

}  // namespace

ClaimLoop::ClaimLoop(results::RunStore& store, const results::WorkerShare& worker,
                     const std::vector<WorkUnit>& units, std::size_t first, std::size_t ahead,
                     ClaimHooks hooks)
    : store_(store),
      worker_(worker),
      hooks_(std::move(hooks)),
      ahead_(std::max<std::size_t>(ahead, 1)),
      shares_(static_cast<std::size_t>(worker.count)),
      round_(std::chrono::steady_clock::now()) {
  for (const WorkUnit& unit : units) {
    Share& share = shares_[static_cast<std::size_t>(
        worker.owners[static_cast<std::size_t>(unit.rows.front())])];
    share.units.push_back(&unit);
    share.left += unit.rows.size();
  }
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    open_.push_back(static_cast<std::int32_t>((first + i) % shares_.size()));
  }
}

bool ClaimLoop::needs_more() {
  const std::lock_guard lock(mutex_);
  return !closed_ && ready_.size() < ahead_;
}

void ClaimLoop::take(std::int32_t number) {
  switch (store_.take_share(number)) {
    case results::ShareState::kElsewhere:
      elsewhere_.push_back(number);
      return;
    case results::ShareState::kFinished:
      hooks_.finished(number);
      return;
    case results::ShareState::kTaken:
      break;
  }
  hooks_.taken(number);
  const Share& share = shares_[static_cast<std::size_t>(number)];
  if (share.left == 0) {
    store_.finish_share(number);
    return;
  }
  const std::lock_guard lock(mutex_);
  ready_.insert(ready_.end(), share.units.begin(), share.units.end());
  changed_.notify_all();
}

void ClaimLoop::advance() {
  const auto now = std::chrono::steady_clock::now();
  if (open_.empty() && !elsewhere_.empty() && now - round_ >= kClaimRound) {
    round_ = now;
    open_.assign(elsewhere_.begin(), elsewhere_.end());
    elsewhere_.clear();
  }
  for (int tried = 0; tried < kClaimTries && !open_.empty() && needs_more(); ++tried) {
    const std::int32_t number = open_.front();
    open_.pop_front();
    take(number);
  }
  if (open_.empty() && elsewhere_.empty()) {
    const std::lock_guard lock(mutex_);
    closed_ = true;  // what is ready is still begun
    changed_.notify_all();
  }
}

void ClaimLoop::finished(std::int64_t row) {
  const std::int32_t number = worker_.owners[static_cast<std::size_t>(row)];
  Share& share = shares_[static_cast<std::size_t>(number)];
  if (--share.left == 0) {
    store_.finish_share(number);
  }
}

const WorkUnit* ClaimLoop::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !ready_.empty(); });
  if (ready_.empty()) {
    return nullptr;
  }
  const WorkUnit* const unit = ready_.front();
  ready_.pop_front();
  return unit;
}

void ClaimLoop::stop() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  ready_.clear();
  changed_.notify_all();
}

}  // namespace vindex::engine
