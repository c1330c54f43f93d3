// Owns one io_uring: reads are handed to the kernel and their completions waited for, without a
// thread per read. An interface, so that tests can put one that fails in its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace vindex::input {

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
  virtual ~IoRing() = default;

  /// Starts a read. The caller keeps at most `depth` in flight and `into` alive until wait() or
  /// poll() has given `tag` back. Errors: SystemError E-READ where the kernel takes no more work;
  /// this read was then not begun, and nothing more may be submitted.
  virtual void submit(std::uint64_t tag, int descriptor, std::byte* into, std::uint32_t bytes,
                      std::uint64_t offset) = 0;
  /// Blocks for the next completion, in any order. Errors: SystemError E-READ.
  virtual Completion wait() = 0;
  /// A completion that is there already; works also where wait() does not, without a system call.
  virtual std::optional<Completion> poll() = 0;
};

}  // namespace vindex::input
