// Owns the hand-over between threads of a run: a queue with a limit, closed once by its producer.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <utility>

namespace vindex::engine {

/// Many producers, many consumers. Thread-safe. Holds at most `limit` items, and of items with a
/// weight at most `weight_limit` altogether (one item always fits, however heavy).
///
/// An item wakes one consumer, and room one producer, who wakes the next where he leaves some: a
/// hundred threads that wait for one item would otherwise run for it each time. A producer whose
/// item is too heavy for the room goes on waiting, and others behind him with him, until more is
/// taken; into an empty queue everything fits, so none waits for ever.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t limit,
                        std::uint64_t weight_limit = std::numeric_limits<std::uint64_t>::max())
      : limit_(limit), weight_limit_(weight_limit) {}

  /// Waits for room. False (and `item` is dropped) where the queue was closed.
  bool push(T item, std::uint64_t weight = 0) {
    bool more = false;
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return closed_ || has_room(weight); });
      if (closed_) {
        return false;
      }
      items_.emplace_back(std::move(item), weight);
      weight_ += weight;
      more = has_room(0);
    }
    filled_.notify_one();
    if (more) {
      room_.notify_one();
    }
    return true;
  }

  /// Waits for an item; nothing once the queue is closed and empty.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }

  /// An item within `timeout`, or nothing (closed and empty, or timed out: ask finished()).
  template <typename Duration>
  std::optional<T> pop_for(Duration timeout) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, timeout, [&] { return closed_ || !items_.empty(); });
    return take(lock);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_all();
    room_.notify_all();
  }

  bool finished() {
    const std::lock_guard lock(mutex_);
    return closed_ && items_.empty();
  }

 private:
  bool has_room(std::uint64_t weight) const {
    return items_.empty() || (items_.size() < limit_ && weight_ <= weight_limit_ &&
                              weight <= weight_limit_ - weight_);
  }

  std::optional<T> take(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) {
      return std::nullopt;
    }
    std::optional<T> item(std::move(items_.front().first));
    weight_ -= items_.front().second;
    items_.pop_front();
    lock.unlock();
    room_.notify_one();
    return item;
  }

  std::mutex mutex_;
  std::condition_variable filled_;  ///< an item, or closed
  std::condition_variable room_;    ///< an item less, or closed
  std::deque<std::pair<T, std::uint64_t>> items_;
  std::size_t limit_;
  std::uint64_t weight_limit_;
  std::uint64_t weight_ = 0;
  bool closed_ = false;
};

}  // namespace vindex::engine
