// Owns what is counted of bulk reads: bytes by the way they took, and the time in which at least
// one read was under way.
#pragma once

#include "read_statistics.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>

namespace vindex::input {

/// Thread-safe. Every begin() is followed by one end().
class ReadTally {
 public:
  enum class Way : std::uint8_t { kDirect, kCached, kBuffered, kOther };

  void begin() {
    const std::lock_guard lock(mutex_);
    if (under_way_++ == 0) {
      since_ = Clock::now();
    }
  }
  /// Of a read that failed or goes back to wait.
  void end() {
    const std::lock_guard lock(mutex_);
    stop_clock();
  }
  /// Of `requests` reads that brought `bytes`.
  void end(Way way, std::uint64_t bytes, std::uint64_t requests = 1) {
    const std::lock_guard lock(mutex_);
    stop_clock();
    statistics_.requests += requests;
    (way == Way::kDirect     ? statistics_.direct_bytes
     : way == Way::kCached   ? statistics_.cached_bytes
     : way == Way::kBuffered ? statistics_.buffered_bytes
                             : statistics_.other_bytes) += bytes;
  }
  /// Without `refused`.
  ReadStatistics statistics() const {
    const std::lock_guard lock(mutex_);
    ReadStatistics out = statistics_;
    out.under_way = under_way_;
    if (under_way_ > 0) {
      out.busy_seconds += seconds_since_begin();
    }
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_since_begin() const {
    return std::chrono::duration<double>(Clock::now() - since_).count();
  }
  void stop_clock() {
    if (--under_way_ == 0) {
      statistics_.busy_seconds += seconds_since_begin();
    }
  }

  mutable std::mutex mutex_;
  ReadStatistics statistics_;
  std::int64_t under_way_ = 0;
  Clock::time_point since_{};
};

}  // namespace vindex::input
