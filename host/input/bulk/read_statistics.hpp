// Owns what is said of bulk reads: bytes by the way they took, rates, and a line for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::input {

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

}  // namespace vindex::input
