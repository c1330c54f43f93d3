// Owns choosing between direct reads and reads through the page cache by their time, where the page
// cache is not known to hold the bytes: calls that say what it holds are missing in sandboxes and
// wrong on layered file systems, and some storage is faster through it anyway.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace vindex::input {

/// Thread-safe. Both ways are timed request by request and by turns, so that whatever else is under
/// way slows both: after kUntried requests 2 x kTimed of them, and two of every kInterval further
/// ones, since a file may be in memory in part. Direct reads are preferred: they cost no copy and
/// leave the page cache to others, so the other way must be kMargin times as fast.
class WayTrial {
 public:
  enum class Way : std::uint8_t { kDirect, kBuffered };
  struct Turn {
    Way way = Way::kDirect;
    bool timed = false;  ///< whoever reads says how long it took
  };

  static constexpr std::int64_t kUntried = 8;
  static constexpr std::size_t kTimed = 4;
  static constexpr std::int64_t kInterval = 128;
  static constexpr double kMargin = 1.5;
  /// What ends a preference for the page cache: less than this advantage.
  static constexpr double kLeastAdvantage = 1.1;
  /// Shorter requests are not timed and do not count: a call costs as much as their bytes.
  static constexpr std::uint64_t kLeastBytes = 1U << 20U;

  /// Of the next request, of `bytes`.
  Turn next(std::uint64_t bytes);
  /// A timed one came to an end.
  void took(Way way, std::uint64_t bytes, double seconds);
  /// Bytes per second of one request, the median of the last kTimed; 0 where fewer were timed.
  double rate(Way way) const;
  bool prefers_buffered() const;

 private:
  struct Times {
    std::array<double, kTimed> seconds_per_byte{};
    std::size_t count = 0;
    double median() const;  ///< 0: too few
  };
  void choose();

  mutable std::mutex mutex_;
  std::int64_t requests_ = 0;
  std::array<Times, 2> times_;
  bool prefers_buffered_ = false;
};

}  // namespace vindex::input
