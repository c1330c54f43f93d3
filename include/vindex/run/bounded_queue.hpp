// Owns the hand-over between threads of a run: a queue with a limit, closed once by its producer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace vindex::run {

/// Many producers, many consumers. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit) : limit_(limit) {}

  /// Waits for room. False (and `item` is dropped) where the queue was closed.
  bool push(T item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || items_.size() < limit_; });
    if (closed_) {
      return false;
    }
    items_.push_back(std::move(item));
    changed_.notify_all();
    return true;
  }

  /// Waits for an item; nothing once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take();
  }

  /// An item within `timeout`, or nothing (closed and empty, or timed out: ask finished()).
  template <typename Duration>
  std::optional<T> pop_for(Duration timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    return take();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  bool finished() {
    const std::lock_guard lock(mutex_);
    return closed_ && items_.empty();
  }

 private:
  std::optional<T> take() {
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    changed_.notify_all();
    return item;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  std::size_t limit_;
  bool closed_ = false;
};

}  // namespace vindex::run
