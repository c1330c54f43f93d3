// Owns the threads: one that begins units, consumers for each device, and how both end; and the
// free list of staging buffers that nobody uses.
#include "worker_pool.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

namespace vindex::engine {

namespace {

/// Units so small that handing them over counts are read at least so far ahead.
constexpr std::size_t kSmallUnitsAhead = 64;
constexpr std::uint64_t kSmallUnitBytes = 1U << 20U;

/// The weight of a unit in the queue of those that are ready; kWeightLimit of them fit.
constexpr std::uint64_t kWeightLimit = 1U << 20U;
std::uint64_t queue_weight(const WorkUnit& unit, std::size_t ahead) {
  if (unit.staging_bytes <= kSmallUnitBytes) {
    return kWeightLimit / std::max(kSmallUnitsAhead, ahead);
  }
  return kWeightLimit / (unit.ring ? kMoreAhead : ahead);
}

}  // namespace

WorkerPool::WorkerPool(const std::vector<WorkUnit>& units, std::uint64_t ram_budget,
                       const std::vector<std::int32_t>& calls, Load load, Process process,
                       std::function<void()> finished)
    : WorkerPool(Source{.next =
                            [&units, at = std::size_t{0}]() mutable {
                              return at < units.size() ? &units[at++] : nullptr;
                            }},
                 ram_budget, calls, std::move(load), std::move(process), std::move(finished)) {}

WorkerPool::WorkerPool(Source source, std::uint64_t ram_budget,
                       const std::vector<std::int32_t>& calls, Load load, Process process,
                       std::function<void()> finished)
    : source_(std::move(source)),
      budget_(std::make_shared<MemoryBudget>(ram_budget)),
      load_(std::move(load)),
      process_(std::move(process)),
      finished_(std::move(finished)),
      queue_(std::numeric_limits<std::size_t>::max(), kWeightLimit) {
  const std::int32_t wanted = std::accumulate(calls.begin(), calls.end(), 0);
  consumers_left_ = wanted;
  const std::size_t ahead = static_cast<std::size_t>(wanted) + kMoreAhead;
  if (!start_thread(threads_, [this, ahead] { begin_units(ahead); })) {
    throw_no_thread("reading");
  }
  // Every device gets its first consumer before any gets a second: there may be too few threads.
  for (std::int32_t i = 0; i < wanted; ++i) {
    for (std::size_t device = 0; device < calls.size(); ++device) {
      consumers_ +=
          i < calls[device] &&
                  start_thread(threads_, std::bind_front(&WorkerPool::consume, this, device))
              ? 1
              : 0;
    }
  }
  if (consumers_ == 0) {
    stop();
    join();
    throw_no_thread("measuring");
  }
  for (std::int32_t i = consumers_; i < wanted; ++i) {
    leave();
  }
}

WorkerPool::~WorkerPool() {
  stop();
  join();
}

void WorkerPool::stop() {
  stopped_ = true;
  source_.stop();
  budget_->stop();
  queue_.close();
  const std::lock_guard lock(mutex_);
  for (const Unit& unit : begun_) {
    unit->stop();
  }
}

void WorkerPool::join() { threads_.clear(); }

std::exception_ptr WorkerPool::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void WorkerPool::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) {
      failure_ = std::move(error);
    }
  }
  stop();
}

void WorkerPool::begin_units(std::size_t ahead) {
  try {
    while (const WorkUnit* const unit = source_.next()) {
      auto lease = MemoryLease::take(budget_, unit->memory_bytes);
      if (lease == nullptr || stopped_) {
        break;
      }
      Unit loaded = load_(*unit, std::move(lease));
      {
        const std::lock_guard lock(mutex_);
        if (stopped_) {  // stop() has seen the others already
          break;
        }
        begun_.insert(loaded);
      }
      if (!queue_.push(std::move(loaded), queue_weight(*unit, ahead))) {
        break;
      }
    }
  } catch (const Stopped&) {
    // As below.
  } catch (...) {
    fail(std::current_exception());
  }
  queue_.close();
}

void WorkerPool::consume(std::size_t device) {
  try {
    while (auto loaded = queue_.pop()) {
      if (stopped_) {
        break;
      }
      process_(**loaded, device);
      const std::lock_guard lock(mutex_);
      begun_.erase(*loaded);
    }
  } catch (const Stopped&) {
    // Someone else knows why.
  } catch (...) {
    fail(std::current_exception());
  }
  leave();
}

void WorkerPool::leave() {
  if (--consumers_left_ == 0) {
    finished_();
  }
}

namespace {

/// A buffer may be larger than what is asked for by one part in so many.
constexpr std::size_t kSlackShare = 4;

}  // namespace

struct StagingPool::FreeList {
  std::mutex mutex;
  std::condition_variable returned;
  std::uint64_t out_bytes = 0;
  bool stopped = false;
  std::deque<std::unique_ptr<StagingBuffer>> buffers;  ///< oldest first
  std::uint64_t bytes = 0;
  std::uint64_t limit = 0;

  std::unique_ptr<StagingBuffer> find(std::size_t wanted) {
    const std::lock_guard lock(mutex);
    for (auto buffer = buffers.begin(); buffer != buffers.end(); ++buffer) {
      const std::size_t size = (*buffer)->bytes().size();
      if (size >= wanted && size - wanted <= wanted / kSlackShare) {
        auto found = std::move(*buffer);
        buffers.erase(buffer);
        bytes -= size;
        return found;
      }
    }
    return nullptr;
  }

  /// The oldest ones make room; what does not fit is freed by the caller, outside the lock.
  void keep(std::unique_ptr<StagingBuffer> buffer) {
    std::deque<std::unique_ptr<StagingBuffer>> freed;
    const std::lock_guard lock(mutex);
    const std::size_t size = buffer->bytes().size();
    if (size > limit) {
      return;
    }
    while (bytes + size > limit) {
      bytes -= buffers.front()->bytes().size();
      freed.push_back(std::move(buffers.front()));
      buffers.pop_front();
    }
    bytes += size;
    buffers.push_back(std::move(buffer));
  }
};

class StagingPool::Pooled final : public StagingBuffer {
 public:
  Pooled(std::shared_ptr<FreeList> free_list, std::unique_ptr<StagingBuffer> buffer,
         std::size_t size)
      : free_list_(std::move(free_list)), buffer_(std::move(buffer)), size_(size) {}
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;
  ~Pooled() override {
    free_list_->keep(std::move(buffer_));
    const std::lock_guard lock(free_list_->mutex);
    free_list_->out_bytes -= size_;
    free_list_->returned.notify_all();
  }
  std::span<std::byte> bytes() override { return buffer_->bytes().first(size_); }

 private:
  std::shared_ptr<FreeList> free_list_;
  std::unique_ptr<StagingBuffer> buffer_;
  std::size_t size_;
};

StagingPool::StagingPool(MakeStaging make, std::uint64_t limit_bytes)
    : make_(std::move(make)), free_list_(std::make_shared<FreeList>()) {
  free_list_->limit = limit_bytes;
}

std::unique_ptr<StagingBuffer> StagingPool::take(std::size_t bytes) {
  auto buffer = free_list_->find(bytes);
  if (buffer == nullptr) {
    buffer = make_(bytes);
  }
  {
    const std::lock_guard lock(free_list_->mutex);
    free_list_->out_bytes += bytes;
  }
  return std::make_unique<Pooled>(free_list_, std::move(buffer), bytes);
}

void StagingPool::await_room(std::uint64_t bytes, std::uint64_t most) {
  std::unique_lock lock(free_list_->mutex);
  free_list_->returned.wait(lock, [&] {
    return free_list_->stopped || free_list_->out_bytes == 0 ||
           free_list_->out_bytes + bytes <= most;
  });
  if (free_list_->stopped) {
    throw Stopped();
  }
}

void StagingPool::stop() {
  const std::lock_guard lock(free_list_->mutex);
  free_list_->stopped = true;
  free_list_->returned.notify_all();
}

std::uint64_t StagingPool::kept_bytes() const {
  const std::lock_guard lock(free_list_->mutex);
  return free_list_->bytes;
}

}  // namespace vindex::engine
