// Owns the threads of that lane, and gathering requests into batches.
#include "source_lane.hpp"

#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

namespace vindex::input {

void batch_extent(const BulkExtent& extent, std::vector<Batch>& batches) {
  std::vector<Request> requests;
  cut_extent(extent, requests);
  for (const Request& request : requests) {
    if (batches.empty() || batches.back().source != request.range.source ||
        batches.back().bytes + request.range.bytes > kBatchBytes) {
      Batch& batch = batches.emplace_back();
      batch.source = request.range.source;
    }
    Batch& batch = batches.back();
    batch.requests.push_back(
        {.offset = request.range.offset,
         .into = {request.into, static_cast<std::size_t>(request.range.bytes)}});
    batch.bytes += request.range.bytes;
  }
}

void SourceLane::join() {
  stop();
  threads_.clear();
}

void SourceLane::submit(std::vector<Batch> batches) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) {
      std::move(batches.begin(), batches.end(), std::back_inserter(pending_));
      batches.clear();
      start_threads();
      changed_.notify_all();
    }
  }
  for (Batch& batch : batches) {
    batch.job->finish(stopped_error());
  }
}

// One for each batch that no idle thread will take.
void SourceLane::start_threads() {
  for (std::size_t free = idle_; free < pending_.size() && threads_.size() < kMaxThreads; ++free) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) {
        throw;
      }
      return;  // a limit on threads: those that there are do the work
    }
  }
}

void SourceLane::stop() {
  std::deque<Batch> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(pending_);
    changed_.notify_all();
  }
  for (Batch& batch : dropped) {
    batch.job->finish(stopped_error());
  }
}

void SourceLane::work() {
  while (true) {
    Batch batch;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      changed_.wait(lock, [&] { return stopped_ || !pending_.empty(); });
      --idle_;
      if (pending_.empty()) {
        return;
      }
      batch = std::move(pending_.front());
      pending_.pop_front();
    }
    tally_.begin();
    std::exception_ptr error;
    try {
      batch.source->read_many(batch.requests);
      tally_.end(ReadTally::Way::kOther, batch.bytes, batch.requests.size());
    } catch (...) {
      tally_.end();
      error = std::current_exception();
    }
    batch.job->finish(std::move(error));
  }
}

}  // namespace vindex::input
