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

/// Of one batch, and of one call: enough for a server far away to reach its rate.
inline constexpr std::uint64_t kBatchBytes = 8 * kRequestBytes;

/// Takes from the front of `pending` (not empty) what one call shall read: its first batch, and
/// those behind it that go on in the same source where the one before ends, or at most kBatchGap
/// later. At most kBatchBytes, and a share of the batches that leaves as much for each of
/// `threads`.
std::vector<Batch> take_run(std::deque<Batch>& pending, std::size_t threads);

/// A source that merges neighbours reads over less than this.
inline constexpr std::uint64_t kBatchGap = std::uint64_t{64} << 10U;

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
  void read(std::vector<Batch>& run);

  ReadTally& tally_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> pending_;
  std::vector<std::jthread> threads_;
  std::size_t idle_ = 0;
  bool stopped_ = false;
};

}  // namespace vindex::input
