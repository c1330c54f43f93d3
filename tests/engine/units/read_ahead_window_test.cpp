// Bytes that pass by once: the right ones whatever is asked for and whatever way they come, within
// the memory that was told, and neither failures nor stops leave anyone waiting.
#include "engine/units/read_ahead_window.hpp"

#include "unit_stream_fixture.hpp"

#include "core/process/stop.hpp"
#include "tests/support/temporary_folder.hpp"

#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace vindex::engine::read_ahead_window_test {
namespace {

constexpr std::uint64_t kWindow = ReadAheadWindow::kWindowBytes;
constexpr std::uint64_t kOffset = 1237;  // nothing is aligned
constexpr std::uint64_t kBytes = 5 * kWindow + 321;

/// A unit that reads nothing by itself, of a file that holds a range of kBytes, and the memory that
/// it hands out.
class ReadAheadWindowTest : public ::testing::Test {
 protected:
  ReadAheadWindowTest() {
    content_.resize(kOffset + kBytes + 7);
    for (std::size_t i = 0; i < content_.size(); ++i) {
      content_[i] = static_cast<char>(byte_at(i));
    }
    path_ = folder_.write("f", content_);
    source_ = input::open_file_source(path_);
  }

  void read_by(const input::BulkReadOptions& options) {
    unit_.reset();
    reader_ = std::make_unique<input::BulkReader>(options);
    auto budget = std::make_shared<MemoryBudget>(1);
    unit_ = std::make_unique<UnitStream>(
        models_, work_,
        [this](std::size_t bytes) { return std::make_unique<HeapStaging>(bytes, live_); }, *reader_,
        MemoryLease::take(budget, 0));
  }

  input::ByteRange range() { return {source_.get(), kOffset, kBytes}; }

  bool are_right(const std::byte* bytes, std::uint64_t first, std::uint64_t count) const {
    return std::memcmp(bytes, content_.data() + kOffset + first, count) == 0;
  }

  /// What is on its way to the disk is not dropped.
  void drop_from_page_cache() const {
    const int file = ::open(path_.c_str(), O_RDONLY);
    ASSERT_GE(file, 0);
    ::fsync(file);
    ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }

  testing::TemporaryFolder folder_;
  std::string content_, path_;
  std::unique_ptr<ByteSource> source_;
  ModelViews models_;
  WorkUnit work_ = [] {
    WorkUnit unit;
    unit.streamed = unit.passing = true;
    return unit;
  }();
  std::atomic<std::int64_t> live_{0};
  std::unique_ptr<input::BulkReader> reader_;
  std::unique_ptr<UnitStream> unit_;
};

TEST_F(ReadAheadWindowTest, EveryWayGivesTheBytesOfEveryPiece) {
  for (const input::ReadPath path :
       {input::ReadPath::kAuto, input::ReadPath::kDirect, input::ReadPath::kBuffered}) {
    for (const bool is_dropped : {false, true}) {
      for (const std::uint64_t piece :
           {std::uint64_t{100'003}, kWindow / 4, kWindow, 2 * kWindow + 5, kBytes}) {
        SCOPED_TRACE(::testing::Message()
                     << static_cast<int>(path) << ' ' << is_dropped << ' ' << piece);
        if (is_dropped) {
          drop_from_page_cache();
        }
        read_by({.path = path, .depth = 2, .threads = 2});
        ReadAheadWindow passing(*unit_, range());
        for (std::uint64_t first = 0; first < kBytes; first += piece) {
          const std::uint64_t count = std::min(piece, kBytes - first);
          ASSERT_TRUE(are_right(passing.at(first, count), first, count)) << first;
        }
      }
    }
  }
}

TEST_F(ReadAheadWindowTest, AnyOtherOrderIsRightToo) {
  for (const input::ReadPath path : {input::ReadPath::kAuto, input::ReadPath::kDirect}) {
    read_by({.path = path, .depth = 2, .threads = 2});
    ReadAheadWindow passing(*unit_, range());
    std::mt19937 random(5);
    for (int i = 0; i < 60; ++i) {
      const std::uint64_t first = random() % kBytes;
      const std::uint64_t count = random() % std::min<std::uint64_t>(kBytes - first, 300'000);
      ASSERT_TRUE(are_right(passing.at(first, count), first, count)) << first << ' ' << count;
    }
  }
}

TEST_F(ReadAheadWindowTest, ItsWindowsTakeTheMemoryThatWasToldAndCopiesNone) {
  read_by({.path = input::ReadPath::kDirect});
  {
    ReadAheadWindow passing(*unit_, range());
    for (std::uint64_t first = 0; first + 1000 <= kBytes; first += kWindow / 2) {
      (void)passing.at(first, 1000);
    }
    EXPECT_GT(live_, 0);
    EXPECT_LE(live_, static_cast<std::int64_t>(ReadAheadWindow::window_memory(kBytes)));
  }
  EXPECT_EQ(live_, 0);
  EXPECT_LT(ReadAheadWindow::window_memory(1000), 100'000U);
  EXPECT_EQ(ReadAheadWindow::window_memory(0), 0U);

  read_by({});
  for (std::uint64_t at = 0; at < content_.size(); at += 4096) {
    std::byte one;
    source_->read(at, {&one, 1});
  }
  if (!reader_->is_resident(range())) {
    GTEST_SKIP() << "the page cache does not keep this file";
  }
  ReadAheadWindow passing(*unit_, range());
  EXPECT_TRUE(are_right(passing.at(10, 5000), 10, 5000));
  EXPECT_EQ(live_, 0);
  EXPECT_EQ(reader_->statistics().cached_bytes, 5000U);
}

constexpr std::uint64_t kBad = kOffset + 2 * kWindow + 99;

TEST_F(ReadAheadWindowTest, AWindowThatCannotBeReadIsAnErrorOfWhatLiesInIt) {
  const std::unique_ptr<ByteSource> whole = input::open_file_source(path_);
  // Requests of a source are its windows: the third fails, and again where it is asked alone.
  class Failing final : public ByteSource {
   public:
    explicit Failing(ByteSource& inner) : inner_(inner) {}
    const std::string& name() const override { return inner_.name(); }
    std::uint64_t size() const override { return inner_.size(); }
    SourceIdentity identity() const override { return inner_.identity(); }
    void read_many(std::span<const ReadRequest> requests) override {
      for (const ReadRequest& request : requests) {
        if (request.offset <= kBad && kBad < request.offset + request.into.size()) {
          throw SystemError("E-READ", EIO, "injected");
        }
        inner_.read_many(std::span(&request, 1));
      }
    }

   private:
    ByteSource& inner_;
  };
  source_ = std::make_unique<Failing>(*whole);
  read_by({});
  ReadAheadWindow passing(*unit_, range());
  for (std::uint64_t window = 0; window < 5; ++window) {
    if (window == 2) {
      EXPECT_THROW((void)passing.at(window * kWindow, 1000), SystemError);
      EXPECT_THROW((void)passing.at(window * kWindow + 5000, 1000), SystemError);
    } else {
      EXPECT_TRUE(are_right(passing.at(window * kWindow, 1000), window * kWindow, 1000)) << window;
    }
  }
}

TEST_F(ReadAheadWindowTest, AFileThatEndsBeforeIsTruncatedWhicheverWayItComes) {
  for (const input::ReadPath path : {input::ReadPath::kAuto, input::ReadPath::kDirect}) {
    read_by({.path = path});
    const input::ByteRange beyond = {source_.get(), content_.size() - 1000, 2000};
    ReadAheadWindow passing(*unit_, beyond);
    EXPECT_THROW((void)passing.at(0, 2000), FormatError);
  }
}

TEST_F(ReadAheadWindowTest, AStopIsSeenAndWhatIsUnderWayIsWaitedFor) {
  for (const input::ReadPath path : {input::ReadPath::kAuto, input::ReadPath::kDirect}) {
    read_by({.path = path, .depth = 1, .threads = 1});
    ReadAheadWindow passing(*unit_, range());
    (void)passing.at(0, 1000);
    unit_->stop();
    EXPECT_THROW((void)passing.at(1000, 1000), Stopped);
  }
  unit_.reset();
  EXPECT_EQ(live_, 0);
}

/// Units of a model whose rows pass by, each with two matrices.
class PassingUnitTest : public ::testing::Test {
 protected:
  PassingUnitTest() : model_(6) {
    model_.use(input::open_file_source(folder_.write("f", model_.content)));
  }

  std::unique_ptr<UnitStream> unit() {
    auto budget = std::make_shared<MemoryBudget>(1);
    return std::make_unique<UnitStream>(
        views_, work_,
        [this](std::size_t bytes) { return std::make_unique<HeapStaging>(bytes, live_); }, reader_,
        MemoryLease::take(budget, 0));
  }

  testing::TemporaryFolder folder_;
  Model model_;
  ModelViews views_ = {{&model_.files, &model_.index}};
  WorkUnit work_ = [] {
    WorkUnit unit;
    unit.streamed = unit.passing = true;
    unit.matrices = {{0, 1}, {0, 4}};
    return unit;
  }();
  std::atomic<std::int64_t> live_{0};
  input::BulkReader reader_{{.threads = 2}};
};

TEST_F(PassingUnitTest, ItsInputsAreTheMatrices) {
  const auto passing = unit();
  for (std::size_t i = 0; i < 2; ++i) {
    MatrixInput& input = *passing->input(i);
    EXPECT_FALSE(input.in_memory());
    EXPECT_TRUE(input.has_cheap_slabs());
    const model::MatrixRecord& record = model_.index.matrices[i == 0 ? 1 : 4];
    for (std::int64_t row = 0; row < kRows; row += 16) {
      const decode::EncodedMatrix slab = input.row_slab(row, 16);
      EXPECT_EQ(slab.first_row, row);
      const auto first = record.codes.offset + static_cast<std::uint64_t>(row * kCols * 2);
      ASSERT_EQ(std::memcmp(slab.codes, model_.content.data() + first, 16 * kCols * 2), 0) << row;
    }
    const decode::EncodedMatrix some = input.column_slab(8, 8);
    EXPECT_EQ(std::memcmp(some.codes, model_.content.data() + record.codes.offset + 16, 16), 0);
    EXPECT_EQ(passing->error(i), nullptr);
  }
}

TEST_F(PassingUnitTest, AFileThatChangedMeanwhileIsNoticed) {
  const auto passing = unit();
  (void)passing->input(0)->row_slab(0, 8);
  EXPECT_EQ(passing->error(0), nullptr);
  const std::string path = folder_.write("f", model_.content);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  (void)passing->input(0)->row_slab(8, 8);
  EXPECT_EQ(testing::error_of([&] { passing->require_read(0); }), "E-INPUT-CHANGED");
}

}  // namespace
}  // namespace vindex::engine::read_ahead_window_test
