// Which way a file is read where the page cache is not known to hold it: what calls of the system
// say and do not say, and what timed reads decide, with a clock and answers that are given.
#include "input/bulk/way_trial.hpp"

#include "bulk_reader_fixture.hpp"

#include "input/local/page_residency.hpp"

#include <atomic>
#include <future>
#include <unistd.h>

namespace vindex::input::way_trial_test {
namespace {

using Way = WayTrial::Way;

Residency judged(const CacheAnswer& answer, bool is_layered, ByteAnswer bytes) {
  return judge_residency(answer, is_layered, [&] { return bytes; });
}

TEST(PageResidency, WhatCachestatSays) {
  const auto answer = [](std::uint64_t cached, std::uint64_t dirty, std::uint64_t writeback) {
    return CacheAnswer{true, 2048, cached, dirty, writeback};
  };
  const auto none = ByteAnswer::kNone;
  EXPECT_EQ(judged(answer(2048, 0, 0), false, none), Residency::kResident);
  EXPECT_EQ(judged(answer(1920, 0, 0), false, none), Residency::kResident);
  EXPECT_EQ(judged(answer(1919, 0, 0), false, none), Residency::kAbsent);
  EXPECT_EQ(judged(answer(0, 0, 0), false, none), Residency::kAbsent);
  // A file that was just written: a direct read would first write its pages.
  EXPECT_EQ(judged(answer(2048, 2048, 0), false, none), Residency::kResident);
  EXPECT_EQ(judged(answer(1000, 1, 0), false, none), Residency::kDirty);
  EXPECT_EQ(judged(answer(1000, 0, 5), false, none), Residency::kDirty);
}

TEST(PageResidency, NothingInALayeredFileSystemSaysNothing) {
  const CacheAnswer nothing{true, 2048, 0, 0, 0};
  EXPECT_EQ(judged(nothing, true, ByteAnswer::kAtOnce), Residency::kResident);
  EXPECT_EQ(judged(nothing, true, ByteAnswer::kWaits), Residency::kAbsent);
  EXPECT_EQ(judged(nothing, true, ByteAnswer::kNone), Residency::kUnknown);
  EXPECT_EQ(judged({true, 2048, 500, 0, 0}, true, ByteAnswer::kNone), Residency::kAbsent);
}

TEST(PageResidency, WithoutCachestatBytesAreAskedAndWithoutThemNobodyKnows) {
  for (const bool is_layered : {false, true}) {
    EXPECT_EQ(judged({}, is_layered, ByteAnswer::kAtOnce), Residency::kResident);
    EXPECT_EQ(judged({}, is_layered, ByteAnswer::kWaits), Residency::kAbsent);
    EXPECT_EQ(judged({}, is_layered, ByteAnswer::kNone), Residency::kUnknown);
  }
}

TEST(WayTrial, ShortReadingHasNoTrial) {
  WayTrial trial;
  for (std::int64_t i = 0; i < WayTrial::kUntried; ++i) {
    const WayTrial::Turn turn = trial.next(8U << 20U);
    EXPECT_EQ(turn.way, Way::kDirect);
    EXPECT_FALSE(turn.timed);
  }
  for (int i = 0; i < 1000; ++i) {
    EXPECT_FALSE(trial.next(WayTrial::kLeastBytes - 1).timed);
  }
  EXPECT_TRUE(trial.next(8U << 20U).timed);
}

/// Requests of 8 MiB that take as long as is said; how many of them went through the page cache.
int buffered_of(WayTrial& trial, int requests, double direct, double buffered) {
  int count = 0;
  for (int i = 0; i < requests; ++i) {
    const WayTrial::Turn turn = trial.next(8U << 20U);
    const bool is_buffered = turn.way == Way::kBuffered;
    count += is_buffered ? 1 : 0;
    if (turn.timed) {
      trial.took(turn.way, 8U << 20U, is_buffered ? buffered : direct);
    }
  }
  return count;
}

TEST(WayTrial, TheFasterWayIsTakenAndTheTrialsCostLittle) {
  WayTrial alike;
  EXPECT_LE(buffered_of(alike, 10 * 128, 1.0, 0.7), 4 + 10);  // not faster by kMargin
  EXPECT_FALSE(alike.prefers_buffered());
  WayTrial slow_disk;
  EXPECT_GE(buffered_of(slow_disk, 10 * 128, 1.0, 0.1), 10 * 128 - 8 - 4 - 10);
  EXPECT_TRUE(slow_disk.prefers_buffered());
  EXPECT_NEAR(slow_disk.rate(Way::kBuffered) / slow_disk.rate(Way::kDirect), 10.0, 1e-9);
}

TEST(WayTrial, APreferenceEndsWhereItsReasonDoes) {
  WayTrial trial;
  (void)buffered_of(trial, 256, 1.0, 0.1);  // the part in memory
  ASSERT_TRUE(trial.prefers_buffered());
  (void)buffered_of(trial, 128, 1.0, 0.8);  // one slow request is an accident
  EXPECT_TRUE(trial.prefers_buffered());
  (void)buffered_of(trial, 3 * 128, 1.0, 1.0);
  EXPECT_FALSE(trial.prefers_buffered());
}

/// A system whose clock goes by what is read, in seconds per megabyte, and that says `residency` of
/// everything.
class ClockedCalls final : public ReadCalls {
 public:
  ClockedCalls(Residency residency, double direct, double buffered)
      : residency_(residency), direct_seconds_(direct), buffered_seconds_(buffered) {}
  int open_direct(int descriptor) override { return direct_ = ::dup(descriptor); }
  std::int64_t read(int descriptor, std::byte* into, std::size_t bytes,
                    std::uint64_t offset) override {
    now_ = now_ + (descriptor == direct_ ? direct_seconds_ : buffered_seconds_) * 1e-6 *
                      static_cast<double>(bytes);
    return ReadCalls::read(descriptor, into, bytes, offset);
  }
  Residency residency(int, std::uint64_t, std::uint64_t) override { return residency_; }
  double seconds() override { return now_; }

 private:
  Residency residency_;
  double direct_seconds_, buffered_seconds_;
  std::atomic<int> direct_{-1};
  std::atomic<double> now_{0.0};
};

/// What 40 reads of the whole file come to: 120 requests, of which two thirds are large.
ReadStatistics read_with(ByteSource& source, const std::string& content, ClockedCalls& calls,
                         ReadPath path = ReadPath::kAuto) {
  BulkReader reader({.path = path, .depth = 1, .threads = 1}, &calls);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(read_and_compare(reader, {{&source, 0, kFileBytes}}, content), nullptr);
  }
  const ReadStatistics statistics = reader.statistics();
  EXPECT_EQ(statistics.bytes(), 40 * kFileBytes);
  EXPECT_EQ(statistics.prefers_buffered,
            reading_text(statistics, "").find("by choice") != std::string::npos);
  return statistics;
}

using BulkReaderWays = BulkReaderTest;

TEST_F(BulkReaderWays, AHiddenPageCacheIsFoundByTime) {
  for (const Residency residency : {Residency::kUnknown, Residency::kAbsent}) {
    ClockedCalls calls(residency, 5e-3, 5e-4);
    const ReadStatistics statistics = read_with(*source_, content_, calls);
    EXPECT_TRUE(statistics.prefers_buffered);
    EXPECT_GT(statistics.buffered_bytes, 20 * kFileBytes);
    EXPECT_EQ(statistics.unknown_bytes > 0, residency == Residency::kUnknown);
    EXPECT_GT(statistics.buffered_rate, 5.0 * statistics.direct_rate);
  }
}

TEST_F(BulkReaderWays, DirectReadsStayWhereTheyAreAsFast) {
  ClockedCalls calls(Residency::kUnknown, 5e-3, 5e-3);
  const ReadStatistics statistics = read_with(*source_, content_, calls);
  EXPECT_FALSE(statistics.prefers_buffered);
  EXPECT_LE(statistics.buffered_bytes, 4 * kRequestBytes);
}

TEST_F(BulkReaderWays, WhatWaitsToBeWrittenIsNotReadDirectly) {
  ClockedCalls calls(Residency::kDirty, 5e-3, 5e-3);
  const ReadStatistics statistics = read_with(*source_, content_, calls);
  EXPECT_EQ(statistics.direct_bytes, 0U);
  EXPECT_EQ(statistics.direct_rate, 0.0);
}

TEST_F(BulkReaderWays, AWishIsNoTrial) {
  ClockedCalls calls(Residency::kUnknown, 5e-3, 5e-4);
  EXPECT_EQ(read_with(*source_, content_, calls, ReadPath::kDirect).direct_bytes, 40 * kFileBytes);
  EXPECT_EQ(read_with(*source_, content_, calls, ReadPath::kBuffered).direct_bytes, 0U);
}

}  // namespace
}  // namespace vindex::input::way_trial_test
