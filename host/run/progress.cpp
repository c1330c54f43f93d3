#include <vindex/run/progress.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::run {

namespace {
constexpr double kLiveInterval = 0.2;
constexpr double kPlainInterval = 5.0;
constexpr std::size_t kLineWidth = 110;

double rate(double amount, double seconds) { return seconds > 0.0 ? amount / seconds : 0.0; }
}  // namespace

double remaining_seconds(const ProgressSnapshot& s) {
  if (s.cost_done <= 0.0) {
    return -1.0;
  }
  return s.elapsed_seconds * std::max(0.0, s.cost_total - s.cost_done) / s.cost_done;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string progress_line(const ProgressSnapshot& s) {
  const double share = s.cost_total > 0.0 ? s.cost_done / s.cost_total : 1.0;
  const double left = remaining_seconds(s);
  std::string line =
      fmt::format("{}/{} matrices  {:.0f}%  {:.3g}/s  {:.3g} GB/s  ETA {}", s.done, s.total,
                  100.0 * share, rate(static_cast<double>(s.done), s.elapsed_seconds),
                  rate(static_cast<double>(s.bytes_done) / 1e9, s.elapsed_seconds),
                  left < 0.0 ? "?" : clock_text(left));
  if (s.failed > 0) {
    line += fmt::format("  {} failed", s.failed);
  }
  if (!s.current.empty()) {
    line += "  " + s.current;
  }
  return line;
}

std::string progress_json(const ProgressSnapshot& s) {
  nlohmann::ordered_json event = {{"event", "progress"},
                                  {"done", s.done},
                                  {"failed", s.failed},
                                  {"total", s.total},
                                  {"bytes_done", s.bytes_done},
                                  {"bytes_total", s.bytes_total},
                                  {"elapsed_seconds", s.elapsed_seconds}};
  const double left = remaining_seconds(s);
  event["eta_seconds"] =
      left < 0.0 ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(left);
  event["tensor"] = s.current;
  return event.dump();
}

ProgressReporter::ProgressReporter(ProgressMode mode, std::FILE* stream, bool is_terminal)
    : mode_(mode), stream_(stream), live_(mode == ProgressMode::kAuto && is_terminal) {}

void ProgressReporter::print(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kJson) {
    fmt::print(stream_, "{}\n", progress_json(snapshot));
  } else if (live_) {
    std::string line = progress_line(snapshot);
    if (line.size() > kLineWidth) {
      line.resize(kLineWidth);
    }
    const std::size_t width = line.size();
    line.resize(std::max(width, shown_width_), ' ');
    shown_width_ = width;
    fmt::print(stream_, "\r{}", line);
  } else {
    fmt::print(stream_, "{}\n", progress_line(snapshot));
  }
  std::fflush(stream_);
}

void ProgressReporter::update(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kNone || snapshot.elapsed_seconds < next_seconds_) {
    return;
  }
  next_seconds_ = snapshot.elapsed_seconds + (live_ ? kLiveInterval : kPlainInterval);
  print(snapshot);
}

void ProgressReporter::finish(const ProgressSnapshot& snapshot) {
  if (mode_ == ProgressMode::kNone) {
    return;
  }
  print(snapshot);
  if (live_) {
    fmt::print(stream_, "\n");
    std::fflush(stream_);
  }
}

}  // namespace vindex::run
