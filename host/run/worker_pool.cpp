#include <vindex/run/worker_pool.hpp>

#include <utility>

namespace vindex::run {

namespace {
/// Two, so that the next unit is being read while one waits for room; more only compete for the
/// same disk.
constexpr std::int32_t kReaders = 2;
/// Units that wait ready beyond those in work.
constexpr std::size_t kReadAhead = 2;

std::int32_t consumer_count(const std::vector<std::unique_ptr<measure::Backend>>& backends) {
  std::int32_t count = 0;
  for (const auto& backend : backends) {
    count += backend->limits().concurrent_calls;
  }
  return count;
}
}  // namespace

WorkerPool::WorkerPool(const std::vector<WorkUnit>& units, std::uint64_t ram_budget,
                       const std::vector<std::unique_ptr<measure::Backend>>& backends, Load load,
                       Process process, std::function<void()> finished)
    : units_(units),
      budget_(ram_budget),
      load_(std::move(load)),
      process_(std::move(process)),
      finished_(std::move(finished)),
      queue_(kReadAhead) {
  readers_left_ = kReaders;
  consumers_left_ = consumer_count(backends);
  for (std::int32_t i = 0; i < kReaders; ++i) {
    threads_.emplace_back([this] { read_units(); });
  }
  for (const auto& backend : backends) {
    const std::int32_t calls = backend->limits().concurrent_calls;
    for (std::int32_t i = 0; i < calls; ++i) {
      threads_.emplace_back([this, &backend] { consume(*backend); });
    }
  }
}

WorkerPool::~WorkerPool() {
  stop();
  join();
}

void WorkerPool::stop() {
  stopped_ = true;
  budget_.stop();
  queue_.close();
}

void WorkerPool::join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) {
      thread.join();
    }
  }
}

void WorkerPool::abandon() {
  stop();
  for (std::thread& thread : threads_) {
    thread.detach();
  }
  threads_.clear();
}

std::exception_ptr WorkerPool::failure() {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void WorkerPool::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(failure_mutex_);
    if (failure_ == nullptr) {
      failure_ = std::move(error);
    }
  }
  stop();
}

void WorkerPool::read_units() {
  try {
    while (!stopped_) {
      const WorkUnit* unit = nullptr;
      {
        // Taking a unit and queueing for its memory is one step, so units are begun in the order of
        // the plan.
        const std::lock_guard lock(order_mutex_);
        const std::size_t i = next_unit_++;
        if (i >= units_.size() || !budget_.acquire(units_[i].memory_bytes)) {
          break;
        }
        unit = &units_[i];
      }
      if (!queue_.push(load_(*unit))) {
        break;
      }
    }
  } catch (...) {
    fail(std::current_exception());
  }
  if (--readers_left_ == 0) {
    queue_.close();
  }
}

void WorkerPool::consume(measure::Backend& backend) {
  try {
    while (auto loaded = queue_.pop()) {
      if (stopped_) {
        break;
      }
      const std::uint64_t bytes = loaded->unit->memory_bytes;
      process_(*loaded, backend);
      loaded.reset();
      budget_.release(bytes);
    }
  } catch (...) {
    fail(std::current_exception());
  }
  if (--consumers_left_ == 0) {
    finished_();
  }
}

}  // namespace vindex::run
