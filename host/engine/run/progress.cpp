// Owns rates, remaining time, and the texts and JSON lines that carry them.
#include "progress.hpp"

#include "core/json/json_document.hpp"
#include "core/text/secrets.hpp"
#include "core/text/size_text.hpp"
#include "core/text/text_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace vindex::engine {

namespace {
constexpr double kLiveInterval = 0.2;
constexpr double kPlainInterval = 5.0;
constexpr double kJsonInterval = 1.0;  // read by programs, which draw with it
/// A name of fewer columns says nothing.
constexpr std::size_t kMinName = 12;
/// Erases from the cursor to the end of the screen: also the rows into which a terminal has broken
/// a line that was printed before it became narrower.
constexpr const char* kErase = "\x1b[J";
/// Automatic wrapping (DECAWM): off while the line is written, since a window may have become
/// narrower before this process notices.
constexpr const char* kNoWrap = "\x1b[?7l";
constexpr const char* kWrap = "\x1b[?7h";

double rate(double amount, double seconds) { return seconds > 0.0 ? amount / seconds : 0.0; }

/// Three digits, no exponent for what rates come to.
std::string rate_text(double value) {
  return value >= 100.0 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

double working_seconds(const ProgressSnapshot& s) { return s.elapsed_seconds - s.started_seconds; }

/// Nobody may be reading: no reason to stop, so no failure is looked at.
void put(std::FILE* stream, const std::string& text) {
  std::fputs(without_secrets(text).c_str(), stream);
  std::fflush(stream);
}
}  // namespace

double matrices_per_second(const ProgressSnapshot& s) {
  return rate(static_cast<double>(s.done.matrices - s.before.matrices), working_seconds(s));
}

double remaining_seconds(const ProgressSnapshot& s) {
  const double own = s.done.cost - s.before.cost;
  if (own <= 0.0) {
    return -1.0;
  }
  return std::max(0.0, working_seconds(s)) * std::max(0.0, s.total.cost - s.done.cost) / own;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_line(const ProgressSnapshot& s, std::size_t columns) {
  const double share = s.total.cost > 0.0 ? s.done.cost / s.total.cost : 1.0;
  const double left = remaining_seconds(s);
  const double bytes = static_cast<double>(s.done.bytes - s.before.bytes);
  struct Field {
    std::string text;
    int taken_as;  ///< 0: before all others
  };
  // In the order of the line.
  std::vector<Field> fields = {
      {fmt::format("{}/{}", s.done.matrices, s.total.matrices), 0},
      {" " + s.noun, 3},
      {fmt::format("  {:.0f}%", 100.0 * share), 4},
      {fmt::format("  ETA {}", left < 0.0 ? "?" : clock_text(left)), 2},
      {s.failed > 0 ? fmt::format("  {} failed", s.failed) : "", 1},
      {fmt::format("  {}/s", rate_text(matrices_per_second(s))), 5},
      {fmt::format("  {}/s", data_text(rate(bytes, working_seconds(s)))), 6}};
  std::vector<bool> taken(fields.size(), false);
  std::size_t used = 0;
  for (int turn = 0; turn < static_cast<int>(fields.size()); ++turn) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].taken_as == turn && (turn == 0 || used + fields[i].text.size() <= columns)) {
        taken[i] = true;
        used += fields[i].text.size();
      }
    }
  }
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    line += taken[i] ? fields[i].text : "";
  }
  const std::size_t room = columns > used + 2 ? columns - used - 2 : 0;
  if (!s.current.empty() && (room >= kMinName || display_width(s.current) <= room)) {
    line += "  " + shortened(s.current, room, Keep::kEnd);
  }
  // Beyond the count nothing was taken that does not fit.
  return used > columns ? line.substr(0, columns) : line;
}

std::string progress_json(const ProgressSnapshot& s) {
  Json event = {{"event", "progress"},
                {"done", s.done.matrices},
                {"failed", s.failed},
                {"total", s.total.matrices},
                {"bytes_done", s.done.bytes},
                {"bytes_total", s.total.bytes},
                {"elapsed_seconds", s.elapsed_seconds}};
  const double left = remaining_seconds(s);
  event["eta_seconds"] = left < 0.0 ? Json(nullptr) : Json(left);
  event["tensor"] = s.current;
  event["done_before"] = s.before.matrices;
  event["rate_per_second"] = matrices_per_second(s);
  return event.dump();
}

ProgressReporter::ProgressReporter(ProgressMode mode, std::FILE* stream, bool is_live,
                                   std::function<std::size_t()> columns)
    : mode_(mode),
      stream_(stream),
      live_(mode == ProgressMode::kAuto && is_live),
      columns_(std::move(columns)) {}

ProgressReporter::~ProgressReporter() {
  if (shown_) {
    put(stream_, "\n");
  }
}

void ProgressReporter::print(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kJson) {
    put(stream_, progress_json(snapshot) + "\n");
  } else if (live_) {
    // The last column stays free: a terminal that has written it may or may not go to the next row.
    // The cursor rests at the line's beginning: where the window becomes narrower, terminals that
    // break the line anew keep it there, and the whole line is erased by the next one.
    const std::size_t columns = columns_ ? columns_() : kUsualWidth;
    put(stream_,
        fmt::format("\r{}{}{}{}\r", kNoWrap, progress_line(snapshot, columns > 1 ? columns - 1 : 1),
                    kErase, kWrap));
    shown_ = true;
  } else {
    put(stream_, progress_line(snapshot) + "\n");
  }
}

void ProgressReporter::update(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kNone || snapshot.elapsed_seconds < next_seconds_) {
    return;
  }
  const double interval = mode_ == ProgressMode::kJson ? kJsonInterval
                          : live_                      ? kLiveInterval
                                                       : kPlainInterval;
  next_seconds_ = snapshot.elapsed_seconds + interval;
  print(snapshot);
}

void ProgressReporter::clear() {
  if (shown_) {
    put(stream_, fmt::format("\r{}", kErase));
    shown_ = false;
  }
}

void ProgressReporter::finish(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kNone) {
    return;
  }
  print(snapshot);
  if (live_) {
    put(stream_, "\n");
    shown_ = false;
  }
}

}  // namespace vindex::engine
