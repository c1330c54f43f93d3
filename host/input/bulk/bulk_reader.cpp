// Owns dividing extents into requests and handing them to ring, threads or sources.
#include "bulk_reader.hpp"

#include "bulk_request.hpp"
#include "direct_files.hpp"
#include "read_calls.hpp"
#include "read_extent.hpp"
#include "read_statistics.hpp"
#include "read_tally.hpp"
#include "ring_lane.hpp"
#include "source_lane.hpp"
#include "way_trial.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "input/local/positional_read.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

namespace vindex::input {

namespace {

/// Below this a direct read costs more than the copy it saves, and neighbours come along with the
/// kernel's read-ahead.
constexpr std::uint64_t kMinDirect = 64U << 10U;

}  // namespace

class BulkReader::State {
 public:
  State(const BulkReadOptions& options, ReadCalls* calls)
      : path_(options.path),
        calls_(calls == nullptr ? &system_ : calls),
        files_(*calls_),
        lane_(tally_) {
    const auto depth = static_cast<std::uint32_t>(
        std::clamp(options.depth > 0 ? options.depth : kDefaultDepth, 1, 4096));
    std::string why = "by request";
    std::unique_ptr<IoRing> ring;
    if (options.io_uring && calls == nullptr && path_ != ReadPath::kBuffered) {
      ring = IoRing::open(depth, why);
    }
    if (ring != nullptr) {
      ring_ = RingLane::start(std::move(ring), depth, [this](Request request, std::int32_t result) {
        land(request, result);
      });
      why = "no thread could be started for it";
    }
    try {
      start_workers(options.threads, depth, why);
    } catch (...) {
      shut_down();
      throw;
    }
  }

  ~State() { shut_down(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void submit(const std::vector<BulkExtent>& extents, Done done) {
    std::vector<Request> requests;
    std::vector<Batch> batches;
    for (const BulkExtent& extent : extents) {
      if (extent.range.source->descriptor() < 0) {
        batch_extent(extent, batches);
      } else {
        cut_extent(extent, requests);
      }
    }
    if (requests.empty() && batches.empty()) {
      done(nullptr);
      return;
    }
    const auto job = std::make_shared<Job>(requests.size() + batches.size(), std::move(done));
    for (Request& request : requests) {
      request.job = job;
    }
    for (Batch& batch : batches) {
      batch.job = job;
    }
    // Memory is taken before the first request is handed over: one that waits fills memory of the
    // caller's, who would not know of it after an exception.
    std::list<Request> waiting(std::make_move_iterator(requests.begin()),
                               std::make_move_iterator(requests.end()));
    lane_.submit(std::move(batches));
    const std::size_t count = waiting.size();
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        pending_.splice(pending_.end(), waiting);
      }
    }
    // A thread for each request and no more: the others would find nothing.
    for (std::size_t i = 0; waiting.empty() && i < std::min(count, workers_.size()); ++i) {
      changed_.notify_one();
    }
    for (Request& request : waiting) {
      request.job->finish(stopped_error());
    }
  }

  bool is_resident(const ByteRange& range) {
    return path_ != ReadPath::kDirect && range.source->descriptor() >= 0 &&
           residency_of(range) == Residency::kResident;
  }

  void copy(const ByteRange& range, std::byte* into) {
    tally_.begin();
    try {
      require_inside(range);
      read_buffered(range, into, 0);
    } catch (...) {
      tally_.end();
      throw;
    }
    tally_.end(Way::kCached, range.bytes);
  }

  void stop() {
    lane_.stop();
    std::list<Request> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      dropped.swap(pending_);
      changed_.notify_all();
    }
    for (Request& request : dropped) {
      request.job->finish(stopped_error());
    }
  }

  void prepare(ByteSource& source) {
    if (source.descriptor() >= 0 && path_ != ReadPath::kBuffered) {
      (void)files_.descriptor(source);
    }
  }

  const std::string& engine() {
    const std::string error = ring_ == nullptr ? std::string() : ring_->error();
    if (const std::lock_guard lock(mutex_); !error.empty() && !reported_error_) {
      engine_ += ", given up for threads: " + error;
      reported_error_ = true;
    }
    return engine_;
  }

  ReadStatistics statistics() const {
    ReadStatistics out = tally_.statistics();
    out.refused = files_.refused();
    out.unknown_bytes = unknown_bytes_;
    out.direct_rate = trial_.rate(WayTrial::Way::kDirect);
    out.buffered_rate = trial_.rate(WayTrial::Way::kBuffered);
    out.prefers_buffered = trial_.prefers_buffered();
    return out;
  }

 private:
  using Way = ReadTally::Way;

  void start_workers(std::int32_t wanted, std::uint32_t depth, const std::string& why) {
    const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    std::int32_t threads = wanted > 0 ? wanted : std::clamp(cores, 4, 16);
    if (ring_ == nullptr) {
      threads = std::max(threads, static_cast<std::int32_t>(std::min<std::uint32_t>(depth, 64)));
    }
    while (std::ssize(workers_) < threads && start_thread(workers_, [this] { work(); })) {
    }
    if (workers_.empty()) {
      throw_no_thread("reading");
    }
    const std::string had = std::ssize(workers_) == threads
                                ? fmt::format("{} threads", threads)
                                : fmt::format(
                                      "{} threads where {} were wanted and the system gave "
                                      "no more",
                                      workers_.size(), threads);
    if (ring_ != nullptr) {
      engine_ = fmt::format("io_uring, {} requests in flight", depth);
      engine_ += std::ssize(workers_) < threads ? ", " + had : "";
    } else {
      engine_ = path_ == ReadPath::kBuffered ? had + ", buffered" : had + ", no io_uring: " + why;
    }
  }

  void shut_down() {
    stop();
    workers_.clear();
    lane_.join();
    ring_.reset();
  }

  void work() {
    while (true) {
      Request request;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || !pending_.empty(); });
        if (pending_.empty()) {
          return;
        }
        request = std::move(pending_.front());
        pending_.pop_front();
      }
      tally_.begin();
      try {
        execute(request);
      } catch (...) {
        tally_.end();
        request.job->finish(std::current_exception());
      }
    }
  }

  static void require_inside(const ByteRange& range) {
    const auto end = checked_add(range.offset, range.bytes);
    if (!end || *end > range.source->size()) {
      throw_truncated(range.source->name(), range.offset, range.bytes, range.source->size());
    }
  }

  void execute(Request& request) {
    ByteSource& source = *request.range.source;
    require_inside(request.range);
    const bool is_large = request.range.bytes >= kMinDirect;
    const Residency residency = !request.buffered && is_large && path_ != ReadPath::kDirect
                                    ? residency_of(request.range)
                                    : Residency::kAbsent;
    const bool cached = residency == Residency::kResident;
    const bool may_be_direct = request.roomy && !request.buffered && is_large &&
                               path_ != ReadPath::kBuffered && !cached &&
                               residency != Residency::kDirty;
    if (may_be_direct && residency == Residency::kUnknown) {
      unknown_bytes_ += request.range.bytes;
    }
    int direct = may_be_direct ? files_.descriptor(source) : -1;
    WayTrial::Turn turn;
    if (direct >= 0 && path_ == ReadPath::kAuto) {
      turn = trial_.next(request.range.bytes);
      direct = turn.way == WayTrial::Way::kDirect ? direct : -1;
    }
    const double begin = turn.timed ? calls_->seconds() : 0.0;
    Way way = cached ? Way::kCached : Way::kBuffered;
    if (direct < 0) {
      read_buffered(request, 0);
    } else if (!turn.timed && ring_ != nullptr && !request.no_ring &&
               ring_->begin(request, direct)) {
      return;
    } else {
      way = read_direct(request, direct);
    }
    if (turn.timed && (way == Way::kDirect) == (turn.way == WayTrial::Way::kDirect)) {
      trial_.took(turn.way, request.range.bytes, calls_->seconds() - begin);
    }
    finish(request, way);
  }

  Residency residency_of(const ByteRange& range) {
    return calls_->residency(range.source->descriptor(), range.offset, range.bytes);
  }

  /// From byte `from` of the range on, through the page cache.
  void read_buffered(const ByteRange& range, std::byte* into, std::uint64_t from) {
    ByteSource& source = *range.source;
    const auto call = [&](void* place, std::size_t bytes, std::uint64_t offset) -> ssize_t {
      return calls_->read(source.descriptor(), static_cast<std::byte*>(place), bytes, offset);
    };
    read_fully(call, source.name(), range.offset + from, {into + from, range.bytes - from});
  }
  void read_buffered(const Request& request, std::uint64_t from) {
    read_buffered(request.range, request.into, from);
  }

  Way read_direct(const Request& request, int direct) {
    while (true) {
      const std::int64_t got =
          calls_->read(direct, request.into - request.edge(), request.direct_bytes(),
                       request.range.offset - request.edge());
      if (got >= 0) {
        return complete(request, static_cast<std::uint64_t>(got));
      }
      const int error = errno;
      if (says_refused(error)) {
        files_.refuse(*request.range.source, error);
        read_buffered(request, 0);
        return Way::kBuffered;
      }
      if (error != EINTR && error != EAGAIN) {
        throw_failed(request, error);
      }
    }
  }

  /// What a direct read that ended after `got` bytes has left to do.
  Way complete(const Request& request, std::uint64_t got) {
    if (got < request.needed()) {
      // The end of the file, or an interruption: the rest, or the refusal, comes by plain reads.
      read_buffered(request, got > request.edge() ? got - request.edge() : 0);
    }
    return Way::kDirect;
  }

  [[noreturn]] static void throw_failed(const Request& request, int error) {
    throw SystemError("E-READ", error,
                      fmt::format("cannot read {} bytes of {} at byte {}", request.range.bytes,
                                  request.range.source->name(), request.range.offset));
  }

  /// What the ring gave back.
  void land(Request& request, std::int32_t result) {
    if (result >= 0 && static_cast<std::uint64_t>(result) >= request.needed()) {
      return finish(request, Way::kDirect);
    }
    // Everything unusual is left to a thread, which asks again and may wait.
    request.no_ring = true;
    request.buffered = result >= 0;
    if (says_refused(-result)) {
      files_.refuse(*request.range.source, -result);
      request.buffered = true;
    }
    again(request);
  }

  /// Puts a request in front of those that wait.
  void again(const Request& request) {
    tally_.end();
    std::exception_ptr error;
    try {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        pending_.push_front(request);
        changed_.notify_one();
        return;
      }
      error = stopped_error();
    } catch (...) {  // no memory to queue it
      error = std::current_exception();
    }
    request.job->finish(error);
  }

  void finish(Request& request, Way way) {
    tally_.end(way, request.range.bytes);
    request.job->finish(nullptr);
  }

  ReadCalls system_;
  ReadPath path_;
  ReadCalls* calls_;
  std::string engine_;
  bool reported_error_ = false;
  std::unique_ptr<RingLane> ring_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Request> pending_;
  DirectFiles files_;
  WayTrial trial_;
  std::atomic<std::uint64_t> unknown_bytes_{0};
  ReadTally tally_;
  SourceLane lane_;
  bool stopped_ = false;
  std::vector<std::jthread> workers_;
};

BulkReader::BulkReader(const BulkReadOptions& options, ReadCalls* calls)
    : state_(std::make_unique<State>(options, calls)) {}
BulkReader::~BulkReader() = default;
void BulkReader::submit(const std::vector<BulkExtent>& extents, Done done) {
  state_->submit(extents, std::move(done));
}
bool BulkReader::is_resident(const ByteRange& range) { return state_->is_resident(range); }
void BulkReader::copy(const ByteRange& range, std::byte* into) { state_->copy(range, into); }
void BulkReader::prepare(ByteSource& source) { state_->prepare(source); }
void BulkReader::stop() { state_->stop(); }
const std::string& BulkReader::engine() const { return state_->engine(); }
ReadStatistics BulkReader::statistics() const { return state_->statistics(); }

}  // namespace vindex::input
