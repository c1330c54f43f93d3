// Owns whose turn it is, and the choice.
#include "way_trial.hpp"

#include <algorithm>

namespace vindex::input {

namespace {

std::size_t index_of(WayTrial::Way way) { return static_cast<std::size_t>(way); }

}  // namespace

WayTrial::Turn WayTrial::next(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Way preferred = prefers_buffered_ ? Way::kBuffered : Way::kDirect;
  if (bytes < kLeastBytes) {
    return {preferred, false};
  }
  const std::int64_t number = requests_++ - kUntried;
  if (number < 0) {
    return {preferred, false};
  }
  const std::int64_t timed =
      number < kInterval ? std::int64_t{2 * kTimed} : std::int64_t{2};  // of this interval
  const std::int64_t place = number % kInterval;
  if (place >= timed) {
    return {preferred, false};
  }
  return {place % 2 == 0 ? Way::kDirect : Way::kBuffered, true};
}

void WayTrial::took(Way way, std::uint64_t bytes, double seconds) {
  const std::lock_guard lock(mutex_);
  Times& times = times_[index_of(way)];
  times.seconds_per_byte[times.count++ % kTimed] = seconds / static_cast<double>(bytes);
  choose();
}

double WayTrial::Times::median() const {
  if (count < kTimed) {
    return 0.0;
  }
  std::array<double, kTimed> sorted = seconds_per_byte;
  std::sort(sorted.begin(), sorted.end());
  return 0.5 * (sorted[kTimed / 2 - 1] + sorted[kTimed / 2]);
}

void WayTrial::choose() {
  const double direct = times_[index_of(Way::kDirect)].median();
  const double buffered = times_[index_of(Way::kBuffered)].median();
  if (direct > 0.0 && buffered > 0.0) {
    prefers_buffered_ = direct > (prefers_buffered_ ? kLeastAdvantage : kMargin) * buffered;
  }
}

double WayTrial::rate(Way way) const {
  const std::lock_guard lock(mutex_);
  const double median = times_[index_of(way)].median();
  return median > 0.0 ? 1.0 / median : 0.0;
}

bool WayTrial::prefers_buffered() const {
  const std::lock_guard lock(mutex_);
  return prefers_buffered_;
}

}  // namespace vindex::input
