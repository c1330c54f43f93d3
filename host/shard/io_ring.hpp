// Owns one io_uring: reads are handed to the kernel and their completions waited for, without a
// thread per read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace vindex::shard {

/// submit() from any thread, wait() from one.
class IoRing {
 public:
  struct Completion {
    std::uint64_t tag = 0;
    std::int32_t result = 0;  ///< bytes read, or -errno
  };

  /// A ring for `depth` reads in flight (1..4096), or null with the reason in `why`: a kernel
  /// before 5.6, a container or a sysctl that forbids it.
  static std::unique_ptr<IoRing> open(std::uint32_t depth, std::string& why);
  ~IoRing();
  IoRing(const IoRing&) = delete;
  IoRing& operator=(const IoRing&) = delete;

  /// Starts a read. The caller keeps at most `depth` in flight and `into` alive until wait() has
  /// given `tag` back. Errors: SystemError E-READ where the kernel takes no more work.
  void submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
              std::uint64_t offset);
  /// Makes one wait() return `tag` without a read.
  void post(std::uint64_t tag);
  /// Blocks for the next completion, in any order. Errors: SystemError E-READ.
  Completion wait();

 private:
  struct Ring;
  explicit IoRing(std::unique_ptr<Ring> ring);
  template <typename Prepare>
  void push(std::uint64_t tag, const Prepare& prepare);

  std::unique_ptr<Ring> ring_;
  std::mutex submit_mutex_;
};

}  // namespace vindex::shard
