// Owns the reads of sources that are no local files: few threads of their own, so that a slow
// source holds up no local read, each handing many ranges to its source in one call.
#pragma once

#include "bulk_request.hpp"
#include "read_tally.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::input {

/// Ranges of one source and one job that one read_many() fills.
struct Batch {
  std::shared_ptr<Job> job;
  ByteSource* source = nullptr;
  std::vector<ReadRequest> requests;
  std::uint64_t bytes = 0;
};

/// Of one batch. Eight requests: a source that asks for the ranges of a call side by side has them
/// all under way.
inline constexpr std::uint64_t kBatchBytes = 8 * kRequestBytes;

/// Adds `extent`, cut into requests, to the last of `batches` or to new ones.
void batch_extent(const BulkExtent& extent, std::vector<Batch>& batches);

/// Thread-safe. Threads start with the first batches, so that a run without such sources has none.
class SourceLane {
 public:
  static constexpr std::size_t kMaxThreads = 8;

  explicit SourceLane(ReadTally& tally) : tally_(tally) {}
  ~SourceLane() { join(); }
  SourceLane(const SourceLane&) = delete;
  SourceLane& operator=(const SourceLane&) = delete;

  /// Every job hears of each of its batches once.
  void submit(std::vector<Batch> batches);
  /// Ends what has not begun with an error.
  void stop();
  /// As stop(); waits for what is under way.
  void join();

 private:
  void start_threads();
  void work();

  ReadTally& tally_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> pending_;
  std::vector<std::jthread> threads_;
  std::size_t idle_ = 0;
  bool stopped_ = false;
};

}  // namespace vindex::input
