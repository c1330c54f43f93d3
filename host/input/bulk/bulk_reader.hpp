// Owns reading many large extents at the speed of the storage: what the page cache holds is copied
// by several threads, the rest is read past it (O_DIRECT) with many requests in flight, by io_uring
// where the kernel has it, by threads elsewhere. What a file system refuses, or gives slowly, is
// read through the page cache instead, and counted, so that the program can say so.
#pragma once

#include "input/local/file_source.hpp"
#include "input/local/page_residency.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vindex::input {

/// Direct reads begin and end at multiples of this, in the file and in memory.
inline constexpr std::uint64_t kDirectAlignment = 4096;
/// Largest single request: large enough for any drive's full rate, small enough to spread.
inline constexpr std::uint64_t kRequestBytes = 8ULL << 20U;

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

/// A range of a source.
struct ByteRange {
  ByteSource* source = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

/// One read into memory: byte `range.offset` arrives at `into`.
/// `roomy`: the memory from `into - offset % kDirectAlignment` up to the next such boundary behind
/// the range is the caller's too and may be overwritten, and `into` and the offset agree modulo
/// kDirectAlignment; without it no direct read is possible.
struct BulkExtent {
  ByteRange range;
  std::byte* into = nullptr;
  bool roomy = false;
};

/// Where ranges go in one block of memory that begins at a multiple of kDirectAlignment.
struct Placement {
  struct Piece {
    ByteRange range;
    std::uint64_t at = 0;  ///< of its first byte in the block
  };
  std::vector<std::uint64_t> at;  ///< per range given: where its first byte lies
  std::vector<Piece> pieces;      ///< what to read: neighbours merged, all roomy
  std::uint64_t bytes = 0;        ///< of the block, a multiple of kDirectAlignment
};

/// Places `ranges` so that every one can be read directly and in place. Ranges of one source that
/// overlap or lie at most `largest_gap` bytes apart become one piece, gap included.
Placement place_ranges(std::span<const ByteRange> ranges, std::uint64_t largest_gap);
/// An upper bound of what one range of `bytes` adds to Placement::bytes.
constexpr std::uint64_t placed_bytes_at_most(std::uint64_t bytes, std::uint64_t largest_gap) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment + kDirectAlignment +
         largest_gap;
}

/// What was read, by the way it took. Bytes asked for, without over-read edges.
struct ReadStatistics {
  std::uint64_t direct_bytes = 0;    ///< past the page cache
  std::uint64_t cached_bytes = 0;    ///< copied from the page cache
  std::uint64_t buffered_bytes = 0;  ///< from the storage through the page cache
  std::uint64_t other_bytes = 0;     ///< from sources that are no local files
  std::uint64_t requests = 0;        ///< that have ended
  std::int64_t under_way = 0;
  /// Of these, bytes of which no call of the system said whether they are in memory.
  std::uint64_t unknown_bytes = 0;
  std::vector<std::string> refused;  ///< files whose file system refuses direct reads, and why
  /// Bytes per second of single requests that were timed either way; 0 where too few were.
  double direct_rate = 0.0, buffered_rate = 0.0;
  bool prefers_buffered = false;  ///< by these, where there was a choice, at the end
  double busy_seconds = 0.0;      ///< while at least one request was under way
  std::uint64_t bytes() const { return direct_bytes + cached_bytes + buffered_bytes + other_bytes; }
};

/// One line for people: "5.6 GB at 1.31 GB/s, 5.6 GB straight from the storage (io_uring)", and why
/// through the page cache where it was preferred.
std::string reading_text(const ReadStatistics& statistics, const std::string& engine);

/// What the reader asks of the operating system; replaced in tests.
class ReadCalls {
 public:
  virtual ~ReadCalls() = default;
  /// A second descriptor of the same open file for direct reads, or -errno.
  virtual int open_direct(int descriptor);
  virtual std::int64_t read(int descriptor, std::byte* into, std::size_t bytes,
                            std::uint64_t offset);
  virtual Residency residency(int descriptor, std::uint64_t offset, std::uint64_t bytes);
  /// A clock for the time of reads.
  virtual double seconds();
};

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
