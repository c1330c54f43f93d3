// Sources that are slow to answer: many ranges a call, few threads, and files are read meanwhile.
#include "input/bulk/source_lane.hpp"

#include "bulk_reader_fixture.hpp"

#include "tests/support/expect_error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <future>
#include <iterator>
#include <mutex>
#include <set>
#include <thread>

namespace vindex::input::source_lane_test {
namespace {

/// Every read_many() waits at a gate; counts calls, ranges and threads.
class GatedSource final : public ByteSource {
 public:
  explicit GatedSource(const std::string& bytes)
      : memory_(make_memory_source("gated", testing::bytes_of(bytes))) {}
  const std::string& name() const override { return memory_->name(); }
  std::uint64_t size() const override { return memory_->size(); }
  SourceIdentity identity() const override { return memory_->identity(); }
  void read_many(std::span<const ReadRequest> requests) override {
    {
      std::unique_lock lock(mutex);
      ++calls;
      ranges += requests.size();
      threads.insert(std::this_thread::get_id());
      most = std::max(most, ++inside);
      changed.notify_all();
      changed.wait(lock, [&] { return open; });
      --inside;
    }
    memory_->read_many(requests);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::size_t calls = 0, ranges = 0, inside = 0, most = 0;
  std::set<std::thread::id> threads;
  bool open = false;

 private:
  std::unique_ptr<ByteSource> memory_;
};

TEST_F(BulkReaderTest, ASlowSourceGetsManyRangesACallAndFewThreads) {
  GatedSource slow(content_);
  std::vector<std::byte> memory(100 * 1000);
  std::atomic<int> good{0};
  std::promise<std::exception_ptr> local;
  {
    BulkReader reader({.threads = 1});
    for (int job = 0; job < 100; ++job) {
      std::vector<BulkExtent> extents;
      for (std::uint64_t i = 0; i < 10; ++i) {
        const auto at = static_cast<std::uint64_t>(job) * 1000 + i * 100;
        extents.push_back({{&slow, 7 * at, 100}, memory.data() + at, false});
      }
      reader.submit(extents, [&](const std::exception_ptr& e) { good += e == nullptr ? 1 : 0; });
    }
    {
      std::unique_lock lock(slow.mutex);
      slow.changed.wait(lock, [&] { return slow.inside == SourceLane::kMaxThreads; });
    }
    // Meanwhile a file is read as ever.
    AlignedBlock block(1U << 20U);
    reader.submit({{{source_.get(), 0, 100'000}, block.data(), true}},
                  [&](std::exception_ptr error) { local.set_value(std::move(error)); });
    EXPECT_EQ(local.get_future().get(), nullptr);
    {
      const std::lock_guard lock(slow.mutex);
      slow.open = true;
      slow.changed.notify_all();
    }
    while (good < 100) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(reader.statistics().other_bytes, memory.size());
  }
  EXPECT_LT(slow.calls, 100U);  // those that waited shared calls
  EXPECT_EQ(slow.ranges, 1000U);
  EXPECT_EQ(slow.threads.size(), SourceLane::kMaxThreads);
  for (std::size_t at = 0; at < memory.size(); at += 100) {
    EXPECT_EQ(std::memcmp(memory.data() + at, content_.data() + 7 * at, 100), 0) << at;
  }
}

TEST_F(BulkReaderTest, StoppingEndsWhatASlowSourceHasNotBegun) {
  GatedSource slow(content_);
  std::vector<std::byte> memory(100);
  std::atomic<int> good{0}, ended{0};
  {
    BulkReader reader;
    for (int job = 0; job < 20; ++job) {
      reader.submit({{{&slow, 0, 100}, memory.data(), false}},
                    [&](const std::exception_ptr& e) { ++(e == nullptr ? good : ended); });
    }
    {
      std::unique_lock lock(slow.mutex);
      slow.changed.wait(lock, [&] { return slow.inside == SourceLane::kMaxThreads; });
    }
    reader.stop();
    EXPECT_EQ(ended, 20 - static_cast<int>(SourceLane::kMaxThreads));
    const std::lock_guard lock(slow.mutex);
    slow.open = true;
    slow.changed.notify_all();
  }
  EXPECT_EQ(good, static_cast<int>(SourceLane::kMaxThreads));
}

TEST(SourceLaneTest, ExtentsBecomeBatchesByHand) {
  const std::string bytes;
  const auto a = make_memory_source("a", testing::bytes_of(bytes));
  const auto b = make_memory_source("b", testing::bytes_of(bytes));
  std::vector<Batch> batches;
  batch_extent({{a.get(), 5, 10}, nullptr, false}, batches);
  batch_extent({{a.get(), 4 * kRequestBytes - 1, 2}, nullptr, false}, batches);  // cut in two
  batch_extent({{b.get(), 0, 10}, nullptr, false}, batches);
  batch_extent({{b.get(), 0, kBatchBytes}, nullptr, false}, batches);  // seven fit, the eighth not
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].requests.size(), 3U);
  EXPECT_EQ(batches[0].bytes, 12U);
  EXPECT_EQ(batches[1].requests.size(), 8U);
  EXPECT_EQ(batches[2].requests.size(), 1U);
  EXPECT_EQ(batches[2].bytes, kRequestBytes);
}

TEST(SourceLaneTest, NeighboursThatWaitShareACall) {
  const auto a = make_memory_source("a", {});
  const auto b = make_memory_source("b", {});
  const auto waiting = [&] {
    std::deque<Batch> batches;
    const auto add = [&](ByteSource& source, std::uint64_t offset, std::uint64_t bytes) {
      std::vector<Batch> one;
      batch_extent({{&source, offset, bytes}, nullptr, false}, one);
      batches.push_back(std::move(one.front()));
    };
    add(*a, 0, 100);
    add(*a, 100, 100);
    add(*a, 200 + kBatchGap, 100);
    add(*a, 301 + 2 * kBatchGap, 100);  // too far
    add(*b, 401 + 2 * kBatchGap, 100);
    return batches;
  };
  std::deque<Batch> batches = waiting();
  EXPECT_EQ(take_run(batches, 1).size(), 3U);
  EXPECT_EQ(take_run(batches, 1).size(), 1U);
  EXPECT_EQ(take_run(batches, 1).size(), 1U);
  EXPECT_TRUE(batches.empty());
  batches = waiting();
  EXPECT_EQ(take_run(batches, 3).size(), 2U);  // the others have work, too
  batches = waiting();
  EXPECT_EQ(take_run(batches, 8).size(), 1U);
  std::vector<Batch> large;
  batch_extent({{a.get(), 0, 2 * kBatchBytes}, nullptr, false}, large);
  batches.assign(std::make_move_iterator(large.begin()), std::make_move_iterator(large.end()));
  EXPECT_EQ(take_run(batches, 1).size(), 1U);  // as much as a call may have
}

/// Fails calls that hold a range from byte `bad` on.
class SpoiltSource final : public ByteSource {
 public:
  SpoiltSource(const std::string& bytes, std::uint64_t bad)
      : memory_(make_memory_source("spoilt", testing::bytes_of(bytes))), bad_(bad) {}
  const std::string& name() const override { return memory_->name(); }
  std::uint64_t size() const override { return memory_->size(); }
  SourceIdentity identity() const override { return memory_->identity(); }
  void read_many(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      if (request.offset >= bad_) {
        throw RemoteError("E-REMOTE-READ", "spoilt", false);
      }
    }
    memory_->read_many(requests);
  }

 private:
  std::unique_ptr<ByteSource> memory_;
  std::uint64_t bad_;
};

TEST_F(BulkReaderTest, AJobHearsOfNoTroubleOfItsNeighbours) {
  constexpr int kJobs = 200;
  SpoiltSource source(content_, 50 * 100);
  std::vector<std::byte> memory(kJobs * 100);
  std::array<std::atomic<int>, kJobs> heard{};
  {
    BulkReader reader;
    for (std::size_t job = 0; job < kJobs; ++job) {
      reader.submit({{{&source, job * 100, 100}, memory.data() + job * 100, false}},
                    [&heard, job](const std::exception_ptr& e) { heard[job] = e ? 2 : 1; });
    }
    for (const auto& one : heard) {
      while (one == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  for (std::size_t job = 0; job < kJobs; ++job) {
    EXPECT_EQ(heard[job], job < 50 ? 1 : 2) << job;
  }
  EXPECT_EQ(std::memcmp(memory.data(), content_.data(), 50 * 100), 0);
}

}  // namespace
}  // namespace vindex::input::source_lane_test
