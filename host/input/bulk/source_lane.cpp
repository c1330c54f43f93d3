// Owns the threads of that lane, and gathering requests into batches.
#include "source_lane.hpp"

#include <algorithm>
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

std::vector<Batch> take_run(std::deque<Batch>& pending, std::size_t threads) {
  const std::size_t share = (pending.size() + threads - 1) / threads;
  std::vector<Batch> run;
  std::uint64_t bytes = 0;
  do {
    bytes += pending.front().bytes;
    run.push_back(std::move(pending.front()));
    pending.pop_front();
    const ReadRequest& last = run.back().requests.back();
    const std::uint64_t end = last.offset + last.into.size();
    const bool goes_on = !pending.empty() && run.size() < share &&
                         pending.front().source == run.back().source &&
                         pending.front().bytes <= kBatchBytes - std::min(bytes, kBatchBytes) &&
                         pending.front().requests.front().offset >= end &&
                         pending.front().requests.front().offset - end <= kBatchGap;
    if (!goes_on) {
      return run;
    }
  } while (true);
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
    std::vector<Batch> run;
    {
      std::unique_lock lock(mutex_);
      ++idle_;
      changed_.wait(lock, [&] { return stopped_ || !pending_.empty(); });
      --idle_;
      if (pending_.empty()) {
        return;
      }
      run = take_run(pending_, kMaxThreads);
    }
    read(run);
  }
}

/// Several batches in one call; where it fails, each by itself, so that every job hears of its own
/// trouble.
void SourceLane::read(std::vector<Batch>& run) {
  std::vector<ReadRequest> requests;
  std::uint64_t bytes = 0;
  for (const Batch& batch : run) {
    requests.insert(requests.end(), batch.requests.begin(), batch.requests.end());
    bytes += batch.bytes;
  }
  tally_.begin();
  std::exception_ptr error;
  try {
    run.front().source->read_many(requests);
    tally_.end(ReadTally::Way::kOther, bytes, requests.size());
  } catch (...) {
    tally_.end();
    error = std::current_exception();
  }
  if (error != nullptr && run.size() > 1) {
    for (Batch& batch : run) {
      std::vector<Batch> alone;
      alone.push_back(std::move(batch));
      read(alone);
    }
    return;
  }
  for (Batch& batch : run) {
    batch.job->finish(error);
  }
}

}  // namespace vindex::input
