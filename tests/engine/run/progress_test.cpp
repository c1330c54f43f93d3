// The progress of a run as text: counts, rates, times left, and how a line fits a terminal.
#include "engine/run/progress.hpp"

#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

namespace vindex::engine::progress_test {
namespace {

ProgressSnapshot halfway() {
  ProgressSnapshot snapshot;
  snapshot.total = {.matrices = 40, .bytes = 8'000'000'000, .cost = 100.0};
  snapshot.done = {.matrices = 10, .bytes = 2'000'000'000, .cost = 50.0};
  snapshot.elapsed_seconds = 20.0;
  snapshot.current = "blk.0.ffn_up.weight";
  return snapshot;
}

/// 14 of 24 were there before; this run has done 2 more in the last 4 of its 10 seconds.
ProgressSnapshot resumed() {
  ProgressSnapshot snapshot;
  snapshot.total = {.matrices = 24, .bytes = 24'000'000'000, .cost = 24.0};
  snapshot.before = {.matrices = 14, .bytes = 14'000'000'000, .cost = 14.0};
  snapshot.done = {.matrices = 16, .bytes = 16'000'000'000, .cost = 16.0};
  snapshot.started_seconds = 6.0;
  snapshot.elapsed_seconds = 10.0;
  return snapshot;
}

/// What a reporter writes for some snapshots, at a terminal of `columns`.
class Printed {
 public:
  explicit Printed(ProgressMode mode, bool live = true, std::size_t columns = 80)
      : columns_(columns),
        stream_(open_memstream(&text_, &size_)),
        reporter_(
            std::make_unique<ProgressReporter>(mode, stream_, live, [this] { return columns_; })) {}
  ~Printed() {
    reporter_.reset();
    std::fclose(stream_);
    std::free(text_);
  }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  ProgressReporter& reporter() { return *reporter_; }
  void end() { reporter_.reset(); }
  /// What was written since the last call.
  std::string taken() {
    std::fflush(stream_);
    const std::string text(text_ + seen_, size_ - seen_);
    seen_ = size_;
    return text;
  }
  std::size_t columns_;

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0, seen_ = 0;
  std::FILE* stream_;
  std::unique_ptr<ProgressReporter> reporter_;
};

std::string printed(ProgressMode mode, bool live) {
  Printed printed(mode, live, 120);
  ProgressSnapshot snapshot = halfway();
  printed.reporter().update(snapshot);
  snapshot.elapsed_seconds = 20.01;  // too soon for a second line in any mode
  printed.reporter().update(snapshot);
  return printed.taken();
}

TEST(ProgressTest, TheEtaFollowsTheArithmeticNotTheCount) {
  EXPECT_DOUBLE_EQ(remaining_seconds(halfway()), 20.0);
  EXPECT_LT(remaining_seconds(ProgressSnapshot{}), 0.0);
}

TEST(ProgressTest, AResumedRunCountsFromWhereItStandsAndTimesItsOwnWork) {
  EXPECT_EQ(progress_line(resumed()), "16/24 matrices  67%  ETA 0:16  0.5/s  500 MB/s");
  const auto event = nlohmann::json::parse(progress_json(resumed()));
  EXPECT_EQ(event["done"], 16);
  EXPECT_EQ(event["total"], 24);
  EXPECT_EQ(event["done_before"], 14);
  EXPECT_DOUBLE_EQ(event["rate_per_second"], 0.5);
  EXPECT_DOUBLE_EQ(event["eta_seconds"], 16.0);
  ProgressSnapshot begun = resumed();
  begun.done = begun.before;
  EXPECT_EQ(progress_line(begun), "14/24 matrices  58%  ETA ?  0/s  0 B/s");
}

TEST(ProgressTest, LineNamesCountShareEtaAndRates) {
  EXPECT_EQ(progress_line(halfway()),
            "10/40 matrices  50%  ETA 0:20  0.5/s  100 MB/s  blk.0.ffn_up.weight");
}

TEST(ProgressTest, ALineCountsWhatTheRowsAre) {
  ProgressSnapshot snapshot = halfway();
  snapshot.noun = "layers";
  EXPECT_EQ(progress_line(snapshot, 14), "10/40 layers");
  EXPECT_EQ(progress_json(snapshot), progress_json(halfway()));
}

TEST(ProgressTest, ALineFitsEveryWidthAndKeepsWhatMattersMost) {
  ProgressSnapshot snapshot = halfway();
  snapshot.failed = 2;
  snapshot.current = "model.layers.12.mlp.experts.37.down_proj.weight[3]";
  for (std::size_t columns = 0; columns <= 200; ++columns) {
    const std::string line = progress_line(snapshot, columns);
    EXPECT_LE(line.size(), columns) << line;
    EXPECT_EQ(line.rfind(std::string("10/40").substr(0, columns), 0), 0U) << line;
    EXPECT_EQ(line.find("failed") != std::string::npos, columns >= 15) << line;
    EXPECT_EQ(line.find("ETA") != std::string::npos, columns >= 25) << line;
  }
  EXPECT_EQ(progress_line(snapshot, 24), "10/40 matrices  2 failed");
  EXPECT_EQ(progress_line(snapshot, 79),
            "10/40 matrices  50%  ETA 0:20  2 failed  0.5/s  100 MB/s  "
            "...own_proj.weight[3]");
  EXPECT_EQ(progress_line(snapshot, 119),
            "10/40 matrices  50%  ETA 0:20  2 failed  0.5/s  100 MB/s  " + snapshot.current);
}

TEST(ProgressTest, NamesOfAnyBytesAreCutBetweenCharacters) {
  ProgressSnapshot snapshot = halfway();
  snapshot.current = printable("\xff\xfe\u5c42\u5c42\u5c42\x1b[2J\n\u00e9e\u0301\U0001f600.weight");
  for (std::size_t columns = 20; columns <= 200; ++columns) {
    const std::string line = progress_line(snapshot, columns);
    EXPECT_LE(display_width(line), columns) << line;
    EXPECT_EQ(printable(line), line) << "whole characters at " << columns;
  }
}

TEST(ProgressTest, ClockTexts) {
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3725.0), "1:02:05");
}

TEST(ProgressTest, NoAnimationWhereThereIsNoTerminal) {
  const std::string plain = printed(ProgressMode::kAuto, false);
  EXPECT_EQ(plain.find('\r'), std::string::npos);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_EQ(plain, progress_line(halfway()) + "\n");
  EXPECT_EQ(printed(ProgressMode::kAuto, true).front(), '\r');
  EXPECT_EQ(printed(ProgressMode::kPlain, true), plain);
  EXPECT_EQ(printed(ProgressMode::kNone, true), "");
}

TEST(ProgressTest, TheLiveLineFollowsTheWidthAndLeavesTheLastColumnFree) {
  Printed terminal(ProgressMode::kAuto);
  ProgressSnapshot snapshot = halfway();
  snapshot.current = std::string(300, 'n');
  for (const std::size_t columns : {120, 80, 40, 200, 1, 80}) {
    terminal.columns_ = columns;
    snapshot.elapsed_seconds += 1.0;
    terminal.reporter().update(snapshot);
    const std::string line = progress_line(snapshot, std::max<std::size_t>(columns - 1, 1));
    // From the line's beginning, unwrapped, what was longer erased, and back to the beginning.
    EXPECT_EQ(terminal.taken(), "\r\x1b[?7l" + line + "\x1b[J\x1b[?7h\r");
    EXPECT_LE(line.size(), std::max<std::size_t>(columns - 1, 1));
  }
  terminal.reporter().finish(snapshot);
  EXPECT_EQ(terminal.taken().back(), '\n');
  terminal.end();
  EXPECT_EQ(terminal.taken(), "");
}

TEST(ProgressTest, WhatElseIsPrintedDoesNotRunIntoTheLiveLine) {
  Printed terminal(ProgressMode::kAuto);
  terminal.reporter().clear();
  EXPECT_EQ(terminal.taken(), "") << "nothing to clear";
  terminal.reporter().update(halfway());
  terminal.taken();
  terminal.reporter().clear();
  EXPECT_EQ(terminal.taken(), "\r\x1b[J");
  ProgressSnapshot later = halfway();
  later.elapsed_seconds += 1.0;
  terminal.reporter().update(later);
  terminal.taken();
  terminal.end();  // as an error does
  EXPECT_EQ(terminal.taken(), "\n");
}

TEST(ProgressTest, JsonLinesParse) {
  const auto event = nlohmann::json::parse(printed(ProgressMode::kJson, true));
  EXPECT_EQ(event["event"], "progress");
  EXPECT_EQ(event["done"], 10);
  EXPECT_DOUBLE_EQ(event["eta_seconds"], 20.0);
}

TEST(ProgressTest, ProgramsAreToldEverySecondAndLogsLessOften) {
  for (const auto& [mode, lines] :
       {std::pair(ProgressMode::kJson, 10), std::pair(ProgressMode::kPlain, 2)}) {
    Printed output(mode, false);
    ProgressSnapshot snapshot = halfway();
    for (int tenth = 0; tenth < 100; ++tenth) {
      output.reporter().update(snapshot);
      snapshot.elapsed_seconds += 0.1;
    }
    const std::string text = output.taken();
    EXPECT_NEAR(static_cast<double>(std::count(text.begin(), text.end(), '\n')), lines, 1.0);
  }
}

}  // namespace
}  // namespace vindex::engine::progress_test
