// Owns reading many large extents at the speed of the storage: what the page cache holds is copied
// by several threads, the rest is read past it (O_DIRECT) with many requests in flight, by io_uring
// where the kernel has it, by threads elsewhere. What a file system refuses, or gives slowly, is
// read through the page cache instead, and counted, so that the program can say so.
#pragma once

#include "read_calls.hpp"
#include "read_extent.hpp"
#include "read_statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace vindex::input {

enum class ReadPath : std::uint8_t {
  /// Copies of what the page cache holds or has yet to write; of the rest direct reads, unless
  /// timed reads of both ways (way_trial.hpp) show that they are the slower ones.
  kAuto,
  kDirect,   ///< direct wherever the file system lets
  kBuffered  ///< always through the page cache
};

struct BulkReadOptions {
  ReadPath path = ReadPath::kAuto;
  std::int32_t depth = 0;    ///< direct requests in flight; 0: kDefaultDepth
  std::int32_t threads = 0;  ///< that copy from the page cache; 0: by the number of cores
  bool io_uring = true;      ///< false: threads alone
};
/// 256 MiB under way. A single virtual disk gives the same rate from 1 to 64 requests
/// (docs/runs/performance.md); striped drives and network stores want tens of them.
inline constexpr std::int32_t kDefaultDepth = 32;

/// Thread-safe. The sources and the memory of an extent must live until its `done` was called.
class BulkReader {
 public:
  using Done = std::function<void(std::exception_ptr)>;

  /// `calls` (which must outlive it) takes the place of the operating system; io_uring is then off.
  explicit BulkReader(const BulkReadOptions& options = {}, ReadCalls* calls = nullptr);
  /// As stop(); waits for what is under way.
  ~BulkReader();
  BulkReader(const BulkReader&) = delete;
  BulkReader& operator=(const BulkReader&) = delete;

  /// Queues `extents`; requests begin in the order of their queueing and end in any. `done` is
  /// called once, on a thread of the reader or (nothing to read, or stopped) on the caller's, with
  /// null or the first error: FormatError E-TRUNCATED, SystemError E-READ, or what
  /// ByteSource::read_many throws. Requests of other extents go on after an error.
  void submit(const std::vector<BulkExtent>& extents, Done done);
  /// True where reading `range` now is a copy from the page cache: it is faster done by who needs
  /// the bytes, into memory that his core's cache holds, than by a thread ahead of him.
  bool is_resident(const ByteRange& range);
  /// Makes that copy, on the caller's thread. What has left the page cache since is read again.
  /// Errors: as submit()'s.
  void copy(const ByteRange& range, std::byte* into);
  /// Asks now, rather than at the first read, whether `source` can be read directly, so that
  /// statistics().refused says.
  void prepare(ByteSource& source);
  /// Ends what has not begun with an error; what is under way ends by itself.
  void stop();
  /// "io_uring, 32 requests in flight", "32 threads (io_uring_setup: Operation not permitted)".
  const std::string& engine() const;
  ReadStatistics statistics() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace vindex::input
