// Owns a ring that fails on the way, from one of its calls on.
#pragma once

#include "input/bulk/io_ring.hpp"
#include <vindex/error.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unistd.h>

namespace vindex::input {

struct Trouble {
  int submit = 0;  ///< from which call on it fails, from 1; 0: never
  int wait = 0;
};

/// Reads when a completion is asked for, so that what is in flight is written late.
class TroubledRing final : public IoRing {
 public:
  explicit TroubledRing(const Trouble& trouble) : error_(trouble) {}

  void submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
              std::uint64_t offset) override {
    const std::lock_guard lock(mutex_);
    if (error_.submit > 0 && ++submits_ >= error_.submit) {
      throw SystemError("E-READ", EIO, "io_uring takes no more reads");
    }
    begun_.push_back({tag, descriptor, into, bytes, offset});
    changed_.notify_one();
  }
  Completion wait() override {
    std::unique_lock lock(mutex_);
    if (error_.wait > 0 && ++waits_ >= error_.wait) {
      throw SystemError("E-READ", EIO, "io_uring gives no completions");
    }
    changed_.wait(lock, [&] { return !begun_.empty(); });
    return first();
  }
  std::optional<Completion> poll() override {
    const std::lock_guard lock(mutex_);
    return begun_.empty() || ++polls_ % 3 != 0 ? std::nullopt : std::optional(first());
  }

 private:
  struct Read {
    std::uint64_t tag;
    int descriptor;
    std::byte* into;
    std::uint32_t bytes;
    std::uint64_t offset;
  };
  Completion first() {
    const Read read = begun_.front();
    begun_.pop_front();
    const ssize_t got =
        ::pread(read.descriptor, read.into, read.bytes, static_cast<off_t>(read.offset));
    return {read.tag, static_cast<std::int32_t>(got < 0 ? -errno : got)};
  }

  Trouble error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Read> begun_;
  int submits_ = 0, waits_ = 0, polls_ = 0;
};

}  // namespace vindex::input
