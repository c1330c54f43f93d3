// Owns the order in which the lanes of a device use its bus: one piece of a batch after the other,
// first come, first served. Lanes that begin together and share the bus have their first pieces
// late, both at the same time, and stay in step: the device then waits for the bus, and the bus for
// the device.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace vindex::kernels {

/// Thread-safe; must outlive the turns that it gives. Whoever has the turn waits for nothing but
/// bytes on their way to him and for his own copies, so that every turn comes to an end.
class UploadTurns {
 public:
  class Turn {
   public:
    explicit Turn(UploadTurns& turns) : turns_(turns) {
      std::unique_lock lock(turns_.mutex_);
      const std::uint64_t ticket = turns_.next_++;
      turns_.changed_.wait(lock, [&] { return turns_.serving_ == ticket; });
    }
    ~Turn() {
      const std::lock_guard lock(turns_.mutex_);
      ++turns_.serving_;
      turns_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    UploadTurns& turns_;
  };

  /// Those that wait for their turn.
  std::uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    return next_ - serving_ - (next_ > serving_ ? 1 : 0);
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0;
  std::uint64_t serving_ = 0;
};

}  // namespace vindex::kernels
