// Owns what a person or a script sees while a run works: one live line on a terminal, plain lines
// in logs, JSON lines on request. Everything goes to one stream; nothing is animated where that
// stream is no terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

namespace vindex::engine {

/// Where a run stands. Everything counts all rows of the run (of the worker, where there are many),
/// those that an earlier run has finished among them; `before` says how many of `done` those are.
struct ProgressSnapshot {
  std::string noun = "matrices";  ///< what the rows are
  struct Amount {
    std::int64_t matrices = 0;
    std::uint64_t bytes = 0;  ///< encoded
    double cost = 0.0;        ///< arithmetic; the ETA follows it
  };
  Amount total, before, done;
  std::int64_t failed = 0;       ///< of `done`
  double started_seconds = 0.0;  ///< when measuring began, by the clock of elapsed_seconds
  double elapsed_seconds = 0.0;
  std::string current;  ///< last finished tensor, printable()
};

enum class ProgressMode : std::uint8_t { kAuto, kPlain, kJson, kNone };

/// Matrices per second by this run's own work; 0 before there is any.
double matrices_per_second(const ProgressSnapshot& snapshot);

/// Seconds left by the share of arithmetic that this run has done itself, or a negative number
/// while that is none.
double remaining_seconds(const ProgressSnapshot& snapshot);

/// "412/1620 matrices  25%  ETA 0:39  2 failed  31.2/s  0.46 GB/s  blk.3.ffn_down_exps.weight" in
/// at most `columns` columns. Where that is too little, the name gives way first (its end
/// survives), then rates, share and words; the count stays.
std::string progress_line(const ProgressSnapshot& snapshot,
                          std::size_t columns = std::numeric_limits<std::size_t>::max());

/// One JSON object, no line feed: {"event":"progress","done":...,"eta_seconds":...|null}.
std::string progress_json(const ProgressSnapshot& snapshot);

/// h:mm:ss or m:ss.
std::string clock_text(double seconds);

/// Prints snapshots at a fitting rate: 5 per second on a terminal, every second as JSON, every few
/// seconds elsewhere.
class ProgressReporter {
 public:
  /// `columns` is asked at every line, so that a resized window is followed; it is needed where
  /// `is_live`: the stream is a terminal that erases on request (ECMA-48).
  ProgressReporter(ProgressMode mode, std::FILE* stream, bool is_live,
                   std::function<std::size_t()> columns = {});
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;
  /// Leaves a live line that was not finished above what is printed next.
  ~ProgressReporter();
  void update(const ProgressSnapshot& snapshot);
  /// Takes the live line away, so that something else can be printed; the next update brings it
  /// back.
  void clear();
  /// Ends the live line; in plain and JSON mode prints the last state.
  void finish(const ProgressSnapshot& snapshot);

 private:
  void print(const ProgressSnapshot& snapshot);
  ProgressMode mode_;
  std::FILE* stream_;
  bool live_;
  std::function<std::size_t()> columns_;
  double next_seconds_ = 0.0;
  bool shown_ = false;
};

}  // namespace vindex::engine
