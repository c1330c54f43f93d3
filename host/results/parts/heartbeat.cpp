// Owns writing and parsing a heartbeat line by line.
#include "heartbeat.hpp"

#include "core/files/process_name.hpp"
#include "core/files/small_file.hpp"
#include "core/files/temporary_files.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex::results {

namespace {

constexpr const char* kProgressSuffix = ".progress";
constexpr std::size_t kMaxHeartbeatBytes = 256U << 10U;
constexpr std::size_t kReasonBytes = 400;
constexpr std::size_t kNameBytes = 1000;

/// The first word of `line`, which loses it and the space behind it.
std::string_view take_word(std::string_view& line) {
  const std::size_t end = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

constexpr std::string_view kFailedRow = "failed-row";
constexpr std::string_view kMendedRow = "mended-row";

std::string line_name(std::string_view kind, model::ResultTable table) {
  return table == model::ResultTable::kMatrix
             ? std::string(kind)
             : fmt::format("{}/{}", kind, model::table_name(table));
}

/// The table of a row's line; nothing where the line is of another kind or table.
std::optional<model::ResultTable> table_of_line(std::string_view name, std::string_view kind) {
  if (!name.starts_with(kind)) {
    return std::nullopt;
  }
  name.remove_prefix(kind.size());
  return name.empty()            ? std::optional(model::ResultTable::kMatrix)
         : name.starts_with('/') ? model::table_of_name(name.substr(1))
                                 : std::nullopt;
}

}  // namespace

void count_outcome(Heartbeat& heartbeat, MatrixStatus before, const StoredRow& after) {
  const bool was_failed = is_failure(before);
  const bool was_done = !was_failed && before != MatrixStatus::kSkipped;
  const bool is_failed = is_failure(after.status);
  FinishedCounts& counts =
      after.table == model::ResultTable::kMatrix ? heartbeat.matrices : heartbeat.derived;
  counts.failed += (is_failed ? 1 : 0) - (was_failed ? 1 : 0);
  counts.done += (is_failed ? 0 : 1) - (was_done ? 1 : 0);
  if (is_failed && heartbeat.failed_rows.size() < kMaxFailedRows) {
    heartbeat.failed_rows.push_back({.table = after.table,
                                     .tensor = after.tensor,
                                     .slice = after.slice,
                                     .status = kStatusNames[static_cast<std::size_t>(after.status)],
                                     .reason = after.reason});
  } else if (!is_failed && was_failed && heartbeat.mended_rows.size() < kMaxFailedRows) {
    heartbeat.mended_rows.push_back({after.table, after.tensor, after.slice});
  }
}

std::string heartbeat_text(const Heartbeat& h) {
  std::string text = fmt::format(
      "owner {}\nsequence {}\ndone {}\nfailed {}\nderived-done {}\nderived-failed {}\nseconds {}\n"
      "rate {}\npace {}\nown-done {}\n",
      h.owner, h.sequence, h.matrices.done, h.matrices.failed, h.derived.done, h.derived.failed,
      h.progress.elapsed_seconds, h.progress.rate_per_second, h.progress.pace, h.progress.own_done);
  if (h.progress.own_total >= 0) {
    text += fmt::format("own-total {}\n", h.progress.own_total);
  }
  if (h.progress.eta_seconds >= 0.0) {
    text += fmt::format("eta {}\n", h.progress.eta_seconds);
  }
  // Names and reasons are printable(): no line feed, no tab.
  for (const FailedRow& row : h.failed_rows) {
    text +=
        fmt::format("{} {} {} {}\t{}\n", line_name(kFailedRow, row.table), row.slice, row.status,
                    row.tensor.substr(0, kNameBytes), row.reason.substr(0, kReasonBytes));
  }
  for (const RowName& row : h.mended_rows) {
    text += fmt::format("{} {} {}\n", line_name(kMendedRow, row.table), row.slice,
                        row.tensor.substr(0, kNameBytes));
  }
  return text;
}

Heartbeat parse_heartbeat(const std::string& text) {
  Heartbeat h;
  std::istringstream lines(text);
  const auto set_count = [](std::int64_t& to, std::string_view value) {
    constexpr std::int64_t kMax = std::int64_t{1} << 40U;
    to = std::clamp(whole_number<std::int64_t>(value).value_or(to), -kMax, kMax);
  };
  const auto set_number = [](double& to, std::string_view value, double most = 1e12) {
    const double number = whole_number<double>(value).value_or(to);
    to = number >= 0.0 && number <= most ? number : to;
  };
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = line;
    const std::string_view name = take_word(rest);
    if (name == "owner") {
      h.owner = rest;
    } else if (name == "sequence") {
      set_count(h.sequence, rest);
    } else if (name == "done") {
      set_count(h.matrices.done, rest);
    } else if (name == "failed") {
      set_count(h.matrices.failed, rest);
    } else if (name == "derived-done") {
      set_count(h.derived.done, rest);
    } else if (name == "derived-failed") {
      set_count(h.derived.failed, rest);
    } else if (name == "seconds") {
      set_number(h.progress.elapsed_seconds, rest);
    } else if (name == "rate") {
      set_number(h.progress.rate_per_second, rest);
    } else if (name == "eta") {
      set_number(h.progress.eta_seconds, rest);
    } else if (name == "pace") {
      set_number(h.progress.pace, rest, 1e24);
    } else if (name == "own-total") {
      set_count(h.progress.own_total, rest);
    } else if (name == "own-done") {
      set_count(h.progress.own_done, rest);
    } else if (const auto failed = table_of_line(name, kFailedRow);
               failed && h.failed_rows.size() < kMaxFailedRows) {
      FailedRow row;
      row.table = *failed;
      row.slice = whole_number<std::int32_t>(take_word(rest)).value_or(-1);
      row.status = printable(std::string(take_word(rest)));
      const std::size_t tab = std::min(rest.find('\t'), rest.size());
      row.tensor = escaped(std::string(rest.substr(0, tab)));
      row.reason = printable(std::string(rest.substr(std::min(tab + 1, rest.size()))));
      h.failed_rows.push_back(std::move(row));
    } else if (const auto mended = table_of_line(name, kMendedRow);
               mended && h.mended_rows.size() < kMaxFailedRows) {
      const std::int32_t slice = whole_number<std::int32_t>(take_word(rest)).value_or(-1);
      h.mended_rows.push_back({*mended, std::string(rest), slice});
    }
  }
  return h;
}

std::string heartbeat_path(const std::string& folder, const std::string& tag) {
  return folder + "/" + tag + kProgressSuffix;
}

void write_heartbeat(const std::string& folder, const std::string& tag,
                     const Heartbeat& heartbeat) {
  const std::string path = heartbeat_path(folder, tag);
  // A name that remove_stale_temporaries_in() knows, should the process be killed just now. No
  // fsync: its readers ask whether the process lives.
  const std::string temporary = temporary_name(path);
  const std::string text = heartbeat_text(heartbeat);
  // Anew each time: what was put in its place, a link to another file, is not written to.
  (void)::unlink(temporary.c_str());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return;
  }
  const ssize_t count = ::write(descriptor, text.data(), text.size());
  ::close(descriptor);
  if (count != static_cast<ssize_t>(text.size()) ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

Heartbeat read_heartbeat(const std::string& folder, const std::string& tag) {
  return parse_heartbeat(read_small_file(heartbeat_path(folder, tag), kMaxHeartbeatBytes));
}

double heartbeat_age(const std::string& folder, const std::string& tag, std::time_t now) {
  struct stat status = {};
  // A clock of seconds: what was written just now may seem to come.
  return ::stat(heartbeat_path(folder, tag).c_str(), &status) == 0
             ? std::max(0.0, static_cast<double>(now - status.st_mtime))
             : -1.0;
}

std::vector<std::string> heartbeat_tags(const std::string& folder) {
  std::vector<std::string> tags;
  const std::string suffix = kProgressSuffix;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    if (name.ends_with(suffix)) {
      tags.push_back(name.substr(0, name.size() - suffix.size()));
    }
  }
  std::sort(tags.begin(), tags.end());
  return tags;
}

}  // namespace vindex::results
