// Owns the list of buffers that are kept, and what happens to those that no one takes.
#include "staging_pool.hpp"

#include <deque>
#include <mutex>
#include <utility>

namespace vindex::engine {

namespace {

/// A buffer may be larger than what is asked for by one part in so many.
constexpr std::size_t kSlackShare = 4;

}  // namespace

struct StagingPool::Shelf {
  std::mutex mutex;
  std::deque<std::unique_ptr<measure::StagingBuffer>> buffers;  ///< oldest first
  std::uint64_t bytes = 0;
  std::uint64_t limit = 0;

  std::unique_ptr<measure::StagingBuffer> find(std::size_t wanted) {
    const std::lock_guard lock(mutex);
    for (auto buffer = buffers.begin(); buffer != buffers.end(); ++buffer) {
      const std::size_t size = (*buffer)->bytes().size();
      if (size >= wanted && size - wanted <= wanted / kSlackShare) {
        auto found = std::move(*buffer);
        buffers.erase(buffer);
        bytes -= size;
        return found;
      }
    }
    return nullptr;
  }

  /// The oldest ones make room; what does not fit is freed by the caller, outside the lock.
  void keep(std::unique_ptr<measure::StagingBuffer> buffer) {
    std::deque<std::unique_ptr<measure::StagingBuffer>> freed;
    const std::lock_guard lock(mutex);
    const std::size_t size = buffer->bytes().size();
    if (size > limit) {
      return;
    }
    while (bytes + size > limit) {
      bytes -= buffers.front()->bytes().size();
      freed.push_back(std::move(buffers.front()));
      buffers.pop_front();
    }
    bytes += size;
    buffers.push_back(std::move(buffer));
  }
};

class StagingPool::Pooled final : public measure::StagingBuffer {
 public:
  Pooled(std::shared_ptr<Shelf> shelf, std::unique_ptr<measure::StagingBuffer> buffer,
         std::size_t size)
      : shelf_(std::move(shelf)), buffer_(std::move(buffer)), size_(size) {}
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;
  ~Pooled() override { shelf_->keep(std::move(buffer_)); }
  std::span<std::byte> bytes() override { return buffer_->bytes().first(size_); }

 private:
  std::shared_ptr<Shelf> shelf_;
  std::unique_ptr<measure::StagingBuffer> buffer_;
  std::size_t size_;
};

StagingPool::StagingPool(MakeStaging make, std::uint64_t limit_bytes)
    : make_(std::move(make)), shelf_(std::make_shared<Shelf>()) {
  shelf_->limit = limit_bytes;
}

std::unique_ptr<measure::StagingBuffer> StagingPool::take(std::size_t bytes) {
  auto buffer = shelf_->find(bytes);
  if (buffer == nullptr) {
    buffer = make_(bytes);
  }
  return std::make_unique<Pooled>(shelf_, std::move(buffer), bytes);
}

std::uint64_t StagingPool::kept_bytes() const {
  const std::lock_guard lock(shelf_->mutex);
  return shelf_->bytes;
}

}  // namespace vindex::engine
