#include <vindex/run/progress.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>

namespace vindex::run {
namespace {

ProgressSnapshot halfway() {
  ProgressSnapshot snapshot;
  snapshot.done = 10;
  snapshot.total = 40;
  snapshot.bytes_done = 2'000'000'000;
  snapshot.cost_done = 50.0;
  snapshot.cost_total = 100.0;
  snapshot.elapsed_seconds = 20.0;
  snapshot.current = "blk.0.ffn_up.weight";
  return snapshot;
}

std::string printed(ProgressMode mode, bool terminal) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* stream = open_memstream(&text, &size);
  ProgressReporter reporter(mode, stream, terminal);
  ProgressSnapshot snapshot = halfway();
  reporter.update(snapshot);
  snapshot.elapsed_seconds = 20.01;  // too soon for a second line in any mode
  reporter.update(snapshot);
  std::fclose(stream);
  std::string out(text, size);
  std::free(text);
  return out;
}

TEST(ProgressTest, TheEtaFollowsTheArithmeticNotTheCount) {
  EXPECT_DOUBLE_EQ(remaining_seconds(halfway()), 20.0);
  EXPECT_LT(remaining_seconds(ProgressSnapshot{}), 0.0);
}

TEST(ProgressTest, LineNamesCountShareRatesAndEta) {
  EXPECT_EQ(progress_line(halfway()),
            "10/40 matrices  50%  0.5/s  0.1 GB/s  ETA 0:20  blk.0.ffn_up.weight");
}

TEST(ProgressTest, ClockTexts) {
  EXPECT_EQ(clock_text(59.6), "1:00");
  EXPECT_EQ(clock_text(3725.0), "1:02:05");
}

TEST(ProgressTest, NoAnimationWhereThereIsNoTerminal) {
  const std::string plain = printed(ProgressMode::kAuto, false);
  EXPECT_EQ(plain.find('\r'), std::string::npos);
  EXPECT_EQ(plain, progress_line(halfway()) + "\n");
  EXPECT_EQ(printed(ProgressMode::kAuto, true).front(), '\r');
  EXPECT_EQ(printed(ProgressMode::kNone, true), "");
}

TEST(ProgressTest, JsonLinesParse) {
  const auto event = nlohmann::json::parse(printed(ProgressMode::kJson, true));
  EXPECT_EQ(event["event"], "progress");
  EXPECT_EQ(event["done"], 10);
  EXPECT_DOUBLE_EQ(event["eta_seconds"], 20.0);
}

}  // namespace
}  // namespace vindex::run
