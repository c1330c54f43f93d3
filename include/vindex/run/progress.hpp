// Owns what a person or a script sees while a run works: one live line on a terminal, plain lines
// in logs, JSON lines on request. Everything goes to one stream; nothing is animated where that
// stream is no terminal.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

namespace vindex::run {

/// Where a run stands.
struct ProgressSnapshot {
  std::int64_t done = 0, failed = 0, total = 0;   ///< matrices of this run
  std::uint64_t bytes_done = 0, bytes_total = 0;  ///< encoded bytes
  double cost_done = 0.0, cost_total = 0.0;       ///< arithmetic; the ETA follows it
  double elapsed_seconds = 0.0;
  std::string current;  ///< last finished tensor, printable()
};

enum class ProgressMode : std::uint8_t { kAuto, kPlain, kJson, kNone };

/// One line of text: "412/1620 matrices  25%  31.2/s  0.46 GB/s  ETA 0:39
/// blk.3.ffn_down_exps.weight".
std::string progress_line(const ProgressSnapshot& snapshot);

/// One JSON object, no line feed: {"event":"progress","done":...,"eta_seconds":...|null}.
std::string progress_json(const ProgressSnapshot& snapshot);

/// Seconds left by the share of arithmetic done, or a negative number while nothing is.
double remaining_seconds(const ProgressSnapshot& snapshot);

/// h:mm:ss or m:ss.
std::string clock_text(double seconds);

/// Prints snapshots at a fitting rate: 5 per second on a terminal, every few seconds elsewhere.
class ProgressReporter {
 public:
  ProgressReporter(ProgressMode mode, std::FILE* stream, bool is_terminal);
  void update(const ProgressSnapshot& snapshot);
  /// Ends the live line; in plain and JSON mode prints the last state.
  void finish(const ProgressSnapshot& snapshot);

 private:
  void print(const ProgressSnapshot& snapshot);
  ProgressMode mode_;
  std::FILE* stream_;
  bool live_;
  double next_seconds_ = 0.0;
  std::size_t shown_width_ = 0;
};

}  // namespace vindex::run
