#include "bulk_request.hpp"
#include "io_ring.hpp"
#include "page_cache.hpp"
#include "positional_read.hpp"

#include <vindex/core/checked.hpp>
#include <vindex/core/error.hpp>
#include <vindex/shard/bulk_reader.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <utility>

namespace vindex::shard {

namespace {

using Clock = std::chrono::steady_clock;

/// Below this a direct read costs more than the copy it saves, and neighbours come along with the
/// kernel's read-ahead.
constexpr std::uint64_t kLeastDirect = 64U << 10U;
constexpr std::uint64_t kStopTag = ~std::uint64_t{0};

bool says_refused(std::int64_t error) { return error == EINVAL || error == EOPNOTSUPP; }

/// The direct descriptor of a file, asked for once.
struct DirectFile {
  int descriptor = -1;
  bool asked = false;
};

std::exception_ptr stopped_error() {
  return std::make_exception_ptr(SystemError("E-READ", ECANCELED, "reading was stopped"));
}

}  // namespace

int ReadCalls::open_direct(int descriptor) {
  // Through /proc the same file is opened even where its name now leads to another one.
  const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  const int direct = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  return direct >= 0 ? direct : -errno;
}

std::int64_t ReadCalls::read(int descriptor, std::byte* into, std::size_t bytes,
                             std::uint64_t offset) {
  return ::pread(descriptor, into, bytes, static_cast<off_t>(offset));
}

bool ReadCalls::cached(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  return in_page_cache(descriptor, offset, bytes);
}

class BulkReader::State {
 public:
  State(const BulkReadOptions& options, ReadCalls* calls)
      : path_(options.path), calls_(calls == nullptr ? &system_ : calls) {
    const auto depth = static_cast<std::uint32_t>(
        std::clamp(options.depth > 0 ? options.depth : kDefaultDepth, 1, 4096));
    std::string why = "by request";
    if (options.io_uring && calls == nullptr && path_ != ReadPath::kBuffered) {
      ring_ = IoRing::open(depth, why);
    }
    const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
    std::int32_t threads = options.threads > 0 ? options.threads : std::clamp(cores, 4, 16);
    if (ring_ == nullptr) {
      threads = std::max(threads, static_cast<std::int32_t>(std::min<std::uint32_t>(depth, 64)));
      engine_ = path_ == ReadPath::kBuffered
                    ? fmt::format("{} threads, buffered", threads)
                    : fmt::format("{} threads, no io_uring: {}", threads, why);
    } else {
      engine_ = fmt::format("io_uring, {} requests in flight", depth);
      in_ring_.resize(depth);
      for (std::uint32_t i = 0; i < depth; ++i) {
        free_places_.push_back(depth - 1 - i);
      }
      reaper_ = std::thread([this] { reap(); });
    }
    for (std::int32_t i = 0; i < threads; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  }

  ~State() {
    stop();
    for (std::thread& worker : workers_) {
      worker.join();
    }
    if (reaper_.joinable()) {
      ring_->post(kStopTag);
      reaper_.join();
    }
    for (auto& [source, file] : files_) {
      if (file.descriptor >= 0) {
        ::close(file.descriptor);
      }
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void submit(const std::vector<BulkExtent>& extents, Done done) {
    std::vector<Request> requests;
    for (const BulkExtent& extent : extents) {
      cut_extent(extent, requests);
    }
    if (requests.empty()) {
      done(nullptr);
      return;
    }
    const auto job = std::make_shared<Job>(requests.size(), std::move(done));
    for (Request& request : requests) {
      request.job = job;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_) {
        std::move(requests.begin(), requests.end(), std::back_inserter(pending_));
        requests.clear();
        changed_.notify_all();
      }
    }
    for (Request& request : requests) {
      request.job->finish(stopped_error());
    }
  }

  void stop() {
    std::deque<Request> dropped;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      dropped.swap(pending_);
      changed_.notify_all();
      place_freed_.notify_all();
    }
    for (Request& request : dropped) {
      request.job->finish(stopped_error());
    }
  }

  void prepare(ByteSource& source) {
    if (source.descriptor() >= 0 && path_ != ReadPath::kBuffered) {
      (void)direct_descriptor(source);
    }
  }

  const std::string& engine() const { return engine_; }

  ReadStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    ReadStatistics out = statistics_;
    if (under_way_ > 0) {
      out.busy_seconds += std::chrono::duration<double>(Clock::now() - busy_since_).count();
    }
    return out;
  }

 private:
  enum class Way : std::uint8_t { kDirect, kCached, kBuffered, kOther };

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
        begin(lock);
      }
      try {
        execute(request);
      } catch (...) {
        finish(request, std::current_exception(), Way::kOther);
      }
    }
  }

  void execute(Request& request) {
    ByteSource& source = *request.range.source;
    const int descriptor = source.descriptor();
    if (descriptor < 0) {
      source.read(request.range.offset, {request.into, request.range.bytes});
      return finish(request, nullptr, Way::kOther);
    }
    const auto end = checked_add(request.range.offset, request.range.bytes);
    if (!end || *end > source.size()) {
      throw_truncated(source.name(), request.range.offset, request.range.bytes, source.size());
    }
    const bool cached = !request.buffered && request.range.bytes >= kLeastDirect &&
                        path_ != ReadPath::kDirect &&
                        calls_->cached(descriptor, request.range.offset, request.range.bytes);
    const bool may_be_direct = request.roomy && !request.buffered && !cached &&
                               path_ != ReadPath::kBuffered && request.range.bytes >= kLeastDirect;
    const int direct = may_be_direct ? direct_descriptor(source) : -1;
    if (direct < 0) {
      read_buffered(request, 0);
      return finish(request, nullptr, cached ? Way::kCached : Way::kBuffered);
    }
    if (ring_ != nullptr && !request.no_ring) {
      return hand_to_ring(request, direct);
    }
    const Way way = read_direct(request, direct);
    finish(request, nullptr, way);
  }

  /// From byte `from` of the request on, through the page cache.
  void read_buffered(const Request& request, std::uint64_t from) {
    ByteSource& source = *request.range.source;
    const auto call = [&](void* into, std::size_t bytes, std::uint64_t offset) -> ssize_t {
      return calls_->read(source.descriptor(), static_cast<std::byte*>(into), bytes, offset);
    };
    read_fully(call, source.name(), request.range.offset + from,
               {request.into + from, request.range.bytes - from});
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
        refuse(*request.range.source, error);
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

  void hand_to_ring(Request& request, int direct) {
    std::uint32_t place = 0;
    std::byte* const into = request.into - request.edge();
    const std::uint64_t offset = request.range.offset - request.edge();
    const auto bytes = static_cast<std::uint32_t>(request.direct_bytes());
    {
      std::unique_lock lock(mutex_);
      place_freed_.wait(lock, [&] { return !free_places_.empty(); });
      place = free_places_.back();
      free_places_.pop_back();
      in_ring_[place] = std::move(request);
    }
    try {
      ring_->submit(place, direct, into, bytes, offset);
    } catch (...) {
      request = take_back(place);
      throw;
    }
  }

  Request take_back(std::uint64_t place) {
    const std::lock_guard lock(mutex_);
    Request request = std::move(in_ring_[place]);
    in_ring_[place] = {};
    free_places_.push_back(static_cast<std::uint32_t>(place));
    place_freed_.notify_one();
    return request;
  }

  /// Waits for completions until it is told to stop and nothing is in flight.
  void reap() {
    bool stopping = false;
    while (true) {
      {
        const std::lock_guard lock(mutex_);
        if (stopping && free_places_.size() == in_ring_.size()) {
          return;
        }
      }
      const IoRing::Completion completion = ring_->wait();
      if (completion.tag == kStopTag) {
        stopping = true;
        continue;
      }
      Request request = take_back(completion.tag);
      if (completion.result >= 0 &&
          static_cast<std::uint64_t>(completion.result) >= request.needed()) {
        finish(request, nullptr, Way::kDirect);
        continue;
      }
      // Everything unusual is left to a thread, which asks again and may wait.
      request.no_ring = true;
      request.buffered = completion.result >= 0;
      if (says_refused(-completion.result)) {
        refuse(*request.range.source, -completion.result);
        request.buffered = true;
      }
      again(std::move(request));
    }
  }

  /// Puts a request in front of those that wait.
  void again(Request request) {
    {
      const std::lock_guard lock(mutex_);
      end();
      if (!stopped_) {
        pending_.push_front(std::move(request));
        changed_.notify_one();
        return;
      }
    }
    request.job->finish(stopped_error());
  }

  int direct_descriptor(ByteSource& source) {
    const std::lock_guard lock(mutex_);
    DirectFile& file = files_[&source];
    if (!file.asked) {
      file.asked = true;
      file.descriptor = calls_->open_direct(source.descriptor());
      if (file.descriptor < 0) {
        note_refusal(source, -file.descriptor);
      }
    }
    return file.descriptor;
  }

  /// No further direct read of `source`. Its descriptor stays open: others may be in flight.
  void refuse(ByteSource& source, int error) {
    const std::lock_guard lock(mutex_);
    DirectFile& file = files_[&source];
    if (file.descriptor >= 0) {
      retired_.push_back(std::exchange(file.descriptor, -1));
      note_refusal(source, error);
    }
  }

  void note_refusal(const ByteSource& source, int error) {
    statistics_.refused.push_back(fmt::format("{} ({})", source.name(), std::strerror(error)));
  }

  void begin(const std::unique_lock<std::mutex>& /*held*/) {
    if (under_way_++ == 0) {
      busy_since_ = Clock::now();
    }
  }
  void end() {
    if (--under_way_ == 0) {
      statistics_.busy_seconds += std::chrono::duration<double>(Clock::now() - busy_since_).count();
    }
  }

  void finish(Request& request, const std::exception_ptr& error, Way way) {
    {
      const std::lock_guard lock(mutex_);
      end();
      if (error == nullptr) {
        ++statistics_.requests;
        (way == Way::kDirect     ? statistics_.direct_bytes
         : way == Way::kCached   ? statistics_.cached_bytes
         : way == Way::kBuffered ? statistics_.buffered_bytes
                                 : statistics_.other_bytes) += request.range.bytes;
      }
    }
    request.job->finish(error);
  }

  /// Closes what refuse() took out of use.
  struct Retired : std::vector<int> {
    ~Retired() {
      for (const int descriptor : *this) {
        ::close(descriptor);
      }
    }
  };

  ReadCalls system_;
  ReadPath path_;
  ReadCalls* calls_;
  std::string engine_;
  std::unique_ptr<IoRing> ring_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, place_freed_;
  std::deque<Request> pending_;
  std::vector<Request> in_ring_;
  std::vector<std::uint32_t> free_places_;
  std::map<ByteSource*, DirectFile> files_;
  Retired retired_;
  ReadStatistics statistics_;
  std::int64_t under_way_ = 0;
  Clock::time_point busy_since_{};
  bool stopped_ = false;
  std::vector<std::thread> workers_;
  std::thread reaper_;
};

BulkReader::BulkReader(const BulkReadOptions& options, ReadCalls* calls)
    : state_(std::make_unique<State>(options, calls)) {}
BulkReader::~BulkReader() = default;
void BulkReader::submit(const std::vector<BulkExtent>& extents, Done done) {
  state_->submit(extents, std::move(done));
}
void BulkReader::prepare(ByteSource& source) { state_->prepare(source); }
void BulkReader::stop() { state_->stop(); }
const std::string& BulkReader::engine() const { return state_->engine(); }
ReadStatistics BulkReader::statistics() const { return state_->statistics(); }

}  // namespace vindex::shard
