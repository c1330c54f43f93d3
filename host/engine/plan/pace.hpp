// Owns how fast a worker has been lately: what it has done between one of its finished rows and
// now.
#pragma once

#include <deque>
#include <utility>

namespace vindex::engine {

/// Not thread-safe.
class Pace {
 public:
  /// At `seconds`, `cost` has been done in all: a row was finished.
  void mark(double seconds, double cost) {
    marks_.emplace_back(seconds, cost);
    while (marks_.size() > 2 && marks_[1].first <= seconds - kWindowSeconds) {
      marks_.pop_front();
    }
  }
  /// Cost per second since a row about a minute ago, or since the last one before: it sinks while
  /// nothing is finished. 0 before there are two rows.
  double at(double seconds) const {
    if (marks_.size() < 2 || seconds <= marks_.front().first) {
      return 0.0;
    }
    return (marks_.back().second - marks_.front().second) / (seconds - marks_.front().first);
  }

 private:
  static constexpr double kWindowSeconds = 60.0;
  std::deque<std::pair<double, double>> marks_;
};

}  // namespace vindex::engine
