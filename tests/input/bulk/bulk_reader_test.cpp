// Bulk reading: every way gives the same bytes, and what the system refuses, cuts short or fails
// ends as the contract says.
#include "bulk_reader_fixture.hpp"

#include "input/bulk/io_ring.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/faulty_source.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <unistd.h>

namespace vindex::input::bulk_reader_test {
namespace {

using testing::TemporaryFolder;

TEST_F(BulkReaderTest, EveryWayGivesTheSameBytes) {
  for (const ReadPath path : {ReadPath::kAuto, ReadPath::kDirect, ReadPath::kBuffered}) {
    for (const bool io_uring : {true, false}) {
      for (const std::int32_t depth : {1, 3, 0}) {
        BulkReader reader({.path = path, .depth = depth, .io_uring = io_uring});
        EXPECT_EQ(read_and_compare(reader, some_ranges(*source_), content_), nullptr);
        const ReadStatistics statistics = reader.statistics();
        EXPECT_GE(statistics.bytes(), 11'304'100U);
        EXPECT_GT(statistics.requests, 4U);
        EXPECT_GT(statistics.busy_seconds, 0.0);
        if (path == ReadPath::kBuffered) {
          EXPECT_EQ(statistics.direct_bytes, 0U);
        } else if (path == ReadPath::kDirect && statistics.refused.empty()) {
          EXPECT_GT(statistics.direct_bytes, 11'000'000U);
        }
      }
    }
  }
}

TEST_F(BulkReaderTest, WhatThePageCacheHoldsIsCopiedTheRestIsReadDirectly) {
  BulkReader reader;
  const std::vector<ByteRange> whole = {{source_.get(), 0, kFileBytes}};
  ASSERT_EQ(read_and_compare(reader, whole, content_), nullptr);
  EXPECT_EQ(reader.statistics().cached_bytes, kFileBytes);  // it was just written
  ASSERT_EQ(::fsync(source_->descriptor()), 0);
  ASSERT_EQ(::posix_fadvise(source_->descriptor(), 0, 0, POSIX_FADV_DONTNEED), 0);
  if (page_residency(source_->descriptor(), 0, kFileBytes) == Residency::kResident) {
    GTEST_SKIP() << "this file system keeps its files in memory";
  }
  ASSERT_EQ(read_and_compare(reader, whole, content_), nullptr);
  if (!reader.statistics().refused.empty()) {
    GTEST_SKIP() << "this file system refuses direct reads";
  }
  EXPECT_EQ(reader.statistics().direct_bytes, kFileBytes);
  EXPECT_EQ(page_residency(source_->descriptor(), 0, kFileBytes), Residency::kAbsent);
}

TEST_F(BulkReaderTest, MemoryThatIsNotAlignedIsReadThroughThePageCache) {
  BulkReader reader({.path = ReadPath::kDirect});
  std::vector<std::byte> memory(1'000'001);
  std::promise<std::exception_ptr> done;
  // Not roomy: what lies around the range is not the reader's to overwrite.
  reader.submit({{{source_.get(), 17, 1'000'000}, memory.data() + 1, false}},
                [&](std::exception_ptr error) { done.set_value(std::move(error)); });
  EXPECT_EQ(done.get_future().get(), nullptr);
  EXPECT_EQ(std::memcmp(memory.data() + 1, content_.data() + 17, 1'000'000), 0);
  EXPECT_EQ(reader.statistics().direct_bytes + reader.statistics().buffered_bytes, 1'000'000U);
}

TEST_F(BulkReaderTest, NothingToReadIsDoneAtOnce) {
  BulkReader reader;
  bool called = false;
  reader.submit({{{source_.get(), 4, 0}, nullptr, false}},
                [&](const std::exception_ptr& error) { called = error == nullptr; });
  EXPECT_TRUE(called);
}

TEST_F(BulkReaderTest, AFileThatEndsBeforeIsTruncated) {
  for (const bool io_uring : {true, false}) {
    BulkReader reader({.path = ReadPath::kDirect, .io_uring = io_uring});
    expect_throws<FormatError>(
        read_and_compare(reader, {{source_.get(), kFileBytes - 10, 11}}, content_), "E-TRUNCATED",
        ExitCode::kMalformedInput);
    expect_throws<FormatError>(
        read_and_compare(reader, {{source_.get(), kFileBytes - 3'000'000, 3'000'001}}, content_),
        "E-TRUNCATED", ExitCode::kMalformedInput);
  }
  std::filesystem::resize_file(path_, 10'000'000);
  for (const bool io_uring : {true, false}) {
    for (const ReadPath path : {ReadPath::kDirect, ReadPath::kBuffered}) {
      BulkReader reader({.path = path, .io_uring = io_uring});
      expect_throws<FormatError>(
          read_and_compare(reader, {{source_.get(), 100, 16'000'000}}, content_), "E-TRUNCATED",
          ExitCode::kMalformedInput);
      // Its neighbours are not taken along.
      EXPECT_EQ(read_and_compare(reader, {{source_.get(), 100, 9'000'000}}, content_), nullptr);
    }
  }
}

TEST_F(BulkReaderTest, OtherSourcesAreReadByTheirOwnMeans) {
  const auto memory = make_memory_source("m", testing::bytes_of(content_));
  testing::FaultySource faulty(*memory, testing::Fault::kFails, 1);
  BulkReader reader({.threads = 1});
  const std::vector<ByteRange> range = {{&faulty, 1000, 70'000}};
  EXPECT_EQ(read_and_compare(reader, range, content_), nullptr);
  expect_throws<SystemError>(read_and_compare(reader, range, content_), "E-READ",
                             ExitCode::kInputOutput);
  EXPECT_EQ(read_and_compare(reader, range, content_), nullptr);
  EXPECT_EQ(reader.statistics().other_bytes, 140'000U);
}

/// The system with trouble: `direct` and `plain` see every call and may answer in its place
/// (nothing: the call is made; negative: -errno).
class TroubledCalls final : public ReadCalls {
 public:
  using Answer = std::function<std::optional<std::int64_t>(std::size_t bytes)>;
  int open_error = 0;
  Answer direct, plain;

  int open_direct(int descriptor) override {
    direct_ = open_error == 0 ? ::dup(descriptor) : -open_error;
    return direct_;
  }
  std::int64_t read(int descriptor, std::byte* into, std::size_t bytes,
                    std::uint64_t offset) override {
    const Answer& answer = descriptor == direct_ ? direct : plain;
    std::optional<std::int64_t> given;
    if (answer) {
      const std::lock_guard lock(mutex_);
      given = answer(bytes);
    }
    if (!given) {
      return ReadCalls::read(descriptor, into, bytes, offset);
    }
    if (*given < 0) {
      errno = static_cast<int>(-*given);
      return -1;
    }
    return ReadCalls::read(descriptor, into, static_cast<std::size_t>(*given), offset);
  }
  Residency residency(int, std::uint64_t, std::uint64_t) override { return Residency::kAbsent; }

 private:
  std::atomic<int> direct_{-1};
  std::mutex mutex_;
};

TEST_F(BulkReaderTest, ARefusalOfDirectReadsIsCountedAndTheBytesArrive) {
  for (const bool when_opened : {true, false}) {
    TroubledCalls calls;
    if (when_opened) {
      calls.open_error = EINVAL;
    } else {
      calls.direct = [](std::size_t) { return -EINVAL; };
    }
    BulkReader reader({}, &calls);
    EXPECT_EQ(read_and_compare(reader, some_ranges(*source_), content_), nullptr);
    const ReadStatistics statistics = reader.statistics();
    EXPECT_EQ(statistics.direct_bytes, 0U);
    EXPECT_EQ(statistics.buffered_bytes, statistics.bytes());
    ASSERT_EQ(statistics.refused.size(), 1U);
    EXPECT_NE(statistics.refused[0].find("Invalid argument"), std::string::npos);
    EXPECT_NE(reading_text(statistics, reader.engine()).find("refused for 1 file"),
              std::string::npos);
  }
}

TEST_F(BulkReaderTest, InterruptionsAndShortReadsAreContinued) {
  TroubledCalls calls;
  int count = 0;
  calls.direct = [&](std::size_t bytes) -> std::optional<std::int64_t> {
    switch (count++ % 4) {
      case 0:
        return -EINTR;
      case 1:
        return -EAGAIN;
      case 2:
        return static_cast<std::int64_t>(bytes / 3);
      default:
        return std::nullopt;
    }
  };
  calls.plain = [&](std::size_t bytes) -> std::optional<std::int64_t> {
    return count++ % 2 == 0 ? -EINTR : static_cast<std::int64_t>((bytes + 1) / 2);
  };
  BulkReader reader({}, &calls);
  EXPECT_EQ(read_and_compare(reader, some_ranges(*source_), content_), nullptr);
  EXPECT_GT(count, 8);
}

TEST_F(BulkReaderTest, FailuresAreErrorsOfTheirExtentAlone) {
  TroubledCalls calls;
  int count = 0;
  calls.direct = [&](std::size_t) -> std::optional<std::int64_t> {
    return count++ == 0 ? std::optional<std::int64_t>(-EIO) : std::nullopt;
  };
  BulkReader reader({.depth = 1, .threads = 1}, &calls);
  const std::vector<ByteRange> range = {{source_.get(), 0, 100'000}};
  expect_throws<SystemError>(read_and_compare(reader, range, content_), "E-READ",
                             ExitCode::kInputOutput);
  EXPECT_EQ(read_and_compare(reader, range, content_), nullptr);
}

TEST_F(BulkReaderTest, StoppingEndsEverySubmissionOnce) {
  TroubledCalls calls;
  std::mutex gate;
  gate.lock();
  calls.direct = [&](std::size_t) -> std::optional<std::int64_t> {
    const std::lock_guard wait(gate);
    return std::nullopt;
  };
  AlignedBlock block(1U << 20U);
  std::atomic<int> good{0}, ended{0};
  {
    BulkReader reader({.depth = 1, .threads = 1}, &calls);
    for (int i = 0; i < 20; ++i) {
      reader.submit({{{source_.get(), 0, 1U << 20U}, block.data(), true}},
                    [&](const std::exception_ptr& error) { ++(error == nullptr ? good : ended); });
    }
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gate.unlock();
    });
    reader.stop();
    opener.join();
    reader.submit({{{source_.get(), 0, 1U << 20U}, block.data(), true}},
                  [&](const std::exception_ptr& error) { ++(error == nullptr ? good : ended); });
  }
  EXPECT_EQ(good + ended, 21);
  EXPECT_LE(good, 1);
}

TEST(PlacementTest, ByHand) {
  const std::string bytes;
  const auto a = make_memory_source("a", testing::bytes_of(bytes));
  const auto b = make_memory_source("b", testing::bytes_of(bytes));
  // Neighbours 100 bytes apart are one piece; the next begins behind it at an aligned place.
  const Placement placement = place_ranges(
      std::vector<ByteRange>{{a.get(), 5000, 100}, {a.get(), 4200, 700}, {a.get(), 90000, 8192}},
      100);
  ASSERT_EQ(placement.pieces.size(), 2U);
  EXPECT_EQ(placement.pieces[0].range.offset, 4200U);
  EXPECT_EQ(placement.pieces[0].range.bytes, 900U);
  EXPECT_EQ(placement.pieces[0].at, 104U);
  EXPECT_EQ(placement.at, (std::vector<std::uint64_t>{904, 104, 4096 + 90000 % 4096}));
  EXPECT_EQ(placement.bytes, 4096U + 12288U);
  // The same offsets of two files are two pieces.
  EXPECT_EQ(
      place_ranges(std::vector<ByteRange>{{a.get(), 0, 10}, {b.get(), 10, 10}}, 4096).pieces.size(),
      2U);
  EXPECT_EQ(place_ranges({}, 0).bytes, 0U);
}

TEST(PlacementTest, EveryRangeIsCoveredInPlaceWithinTheBound) {
  std::mt19937 random(3);
  const std::string bytes;
  const auto source = make_memory_source("s", testing::bytes_of(bytes));
  for (int round = 0; round < 200; ++round) {
    std::vector<ByteRange> ranges;
    std::uint64_t bound = 0;
    const std::uint64_t gap = random() % 20000;
    for (unsigned i = 0; i < 1 + random() % 12; ++i) {
      ranges.push_back({source.get(), random() % 200000, random() % 30000});
      bound += placed_bytes_at_most(ranges.back().bytes, gap);
    }
    const Placement placement = place_ranges(ranges, gap);
    EXPECT_LE(placement.bytes, bound);
    std::uint64_t end = 0;
    for (const Placement::MergedRange& piece : placement.pieces) {
      EXPECT_EQ(piece.at % kDirectAlignment, piece.range.offset % kDirectAlignment);
      EXPECT_GE(piece.at / kDirectAlignment * kDirectAlignment, end);  // no edge is shared
      end = (piece.at + piece.range.bytes + kDirectAlignment - 1) / kDirectAlignment *
            kDirectAlignment;
      EXPECT_LE(end, placement.bytes);
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const bool covered = std::any_of(
          placement.pieces.begin(), placement.pieces.end(),
          [&](const Placement::MergedRange& piece) {
            return ranges[i].offset >= piece.range.offset &&
                   ranges[i].offset + ranges[i].bytes <= piece.range.offset + piece.range.bytes &&
                   placement.at[i] - piece.at == ranges[i].offset - piece.range.offset;
          });
      EXPECT_TRUE(covered);
    }
  }
}

TEST(IoRingTest, CompletionsCarryTheirTags) {
  std::string why;
  const auto ring = IoRing::open(4, why);
  if (ring == nullptr) {
    GTEST_SKIP() << why;
  }
  const TemporaryFolder folder;
  const std::string content = random_text(8192);
  const auto source = open_file_source(folder.write("f", content));
  std::vector<std::byte> into(4 * 100);
  for (std::uint64_t round = 0; round < 50; ++round) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      ring->submit(i, source->descriptor(), into.data() + i * 100, 100, 1000 * i + round);
    }
    std::uint64_t seen = 0;
    for (int i = 0; i < 4; ++i) {
      const IoRing::Completion completion = ring->wait();
      EXPECT_EQ(completion.result, 100);
      seen |= 1U << completion.tag;
    }
    EXPECT_EQ(seen, 15U);
    EXPECT_EQ(std::memcmp(into.data() + 300, content.data() + 3000 + round, 100), 0);
  }
  ring->submit(9, -1, into.data(), 10, 0);
  EXPECT_EQ(ring->wait().result, -EBADF);
  EXPECT_EQ(ring->poll(), std::nullopt);
  ring->submit(7, source->descriptor(), into.data(), 100, 0);
  std::optional<IoRing::Completion> found;
  while (!(found = ring->poll())) {
    std::this_thread::yield();
  }
  EXPECT_EQ(found->tag, 7U);
}

}  // namespace
}  // namespace vindex::input::bulk_reader_test
