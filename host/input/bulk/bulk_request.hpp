// Owns the pieces that a bulk read is cut into: jobs as submitted, requests as the storage sees
// them.
#pragma once

#include "read_extent.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::input {

inline std::uint64_t aligned_down(std::uint64_t offset) {
  return offset - offset % kDirectAlignment;
}
inline std::uint64_t aligned_up(std::uint64_t offset) {
  return aligned_down(offset + kDirectAlignment - 1);
}

/// One submit(): counts its requests down and keeps the first error.
class Job {
 public:
  Job(std::size_t requests, std::function<void(std::exception_ptr)> done)
      : left_(requests), done_(std::move(done)) {}
  void finish(std::exception_ptr error) {
    if (error != nullptr) {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) {
        error_ = std::move(error);
      }
    }
    if (left_.fetch_sub(1) == 1) {
      done_(error_);
    }
  }

 private:
  std::atomic<std::size_t> left_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::function<void(std::exception_ptr)> done_;
};

/// What a job hears of requests that were not begun.
inline std::exception_ptr stopped_error() {
  return std::make_exception_ptr(SystemError("E-READ", ECANCELED, "reading was stopped"));
}

/// At most kRequestBytes of an extent.
struct Request {
  std::shared_ptr<Job> job;
  ByteRange range;
  std::byte* into = nullptr;
  bool roomy = false;
  bool no_ring = false;   ///< the ring gave it back: a thread reads it
  bool buffered = false;  ///< and through the page cache

  std::uint64_t edge() const { return range.offset % kDirectAlignment; }
  /// Bytes from the aligned beginning that must arrive.
  std::uint64_t needed() const { return edge() + range.bytes; }
  std::uint64_t direct_bytes() const { return aligned_up(needed()); }
};

/// Cut at multiples of kRequestBytes of the file, so that only the ends are unaligned.
inline void cut_extent(const BulkExtent& extent, std::vector<Request>& out) {
  const std::uint64_t end = extent.range.offset + extent.range.bytes;
  expects(end >= extent.range.offset, "an extent within the address space");
  for (std::uint64_t at = extent.range.offset; at < end;) {
    const std::uint64_t next = std::min(end, at / kRequestBytes * kRequestBytes + kRequestBytes);
    Request request;
    request.range = {extent.range.source, at, next - at};
    request.into = extent.into + (at - extent.range.offset);
    request.roomy = extent.roomy &&
                    (reinterpret_cast<std::uintptr_t>(request.into) - at) % kDirectAlignment == 0;
    out.push_back(std::move(request));
    at = next;
  }
}

}  // namespace vindex::input
