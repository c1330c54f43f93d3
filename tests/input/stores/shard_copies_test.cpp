// Copies of remote files: what is fetched once is not fetched again, whatever became of the process
// that fetched it, and no byte is believed that is not what was fetched.
#include "input/stores/shard_copies.hpp"

#include "input/stores/shard_copy.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/file_size_limit.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/unsteady_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace vindex::input::shard_copies_test {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::UnsteadyStore;
using Kind = UnsteadyStore::Kind;

constexpr std::uint64_t kAmple = 1 << 20;

std::string some_bytes(std::size_t count) {
  std::string out(count, '\0');
  std::minstd_rand draw(7);
  std::generate(out.begin(), out.end(), [&] { return static_cast<char>(draw() >> 8U); });
  return out;
}

class ShardCopiesTest : public ::testing::Test {
 protected:
  ShardCopiesTest() { store_->put("m", bytes_); }

  /// A process: its copies, and the file opened behind its header.
  struct Process {
    std::shared_ptr<ShardCopies> copies;
    std::unique_ptr<ByteSource> source;
  };
  Process process(std::uint64_t budget = kAmple) {
    Process out;
    out.copies = std::make_shared<ShardCopies>(folder_ / "copies", budget);
    out.copies->make_folder();
    out.source = make_keeping_store(store_, out.copies)->open("m");
    out.source->header_is_read();
    return out;
  }
  static std::string read(ByteSource& source, std::uint64_t offset, std::size_t bytes) {
    return text_at(source, offset, bytes);
  }
  std::string wanted(std::uint64_t offset, std::size_t bytes) const {
    return bytes_.substr(offset, bytes);
  }
  std::uint64_t fetched() const { return store_->count(Kind::kRead); }
  std::optional<fs::path> copy() const {
    if (!fs::exists(folder_ / "copies")) {
      return std::nullopt;
    }
    const fs::directory_iterator entry(folder_ / "copies");
    return entry == fs::directory_iterator() ? std::nullopt : std::optional(entry->path());
  }

  const std::string bytes_ = some_bytes(5000);
  TemporaryFolder folder_;
  std::shared_ptr<UnsteadyStore> store_ = std::make_shared<UnsteadyStore>();
};

TEST_F(ShardCopiesTest, RangesReadTwiceAreFetchedOnce) {
  const Process p = process();
  EXPECT_EQ(read(*p.source, 100, 300), wanted(100, 300));
  EXPECT_EQ(read(*p.source, 100, 300), wanted(100, 300));
  EXPECT_EQ(read(*p.source, 150, 20), wanted(150, 20));
  EXPECT_EQ(fetched(), 1U);
  EXPECT_EQ(p.copies->statistics().reused_bytes, 320U);
}

TEST_F(ShardCopiesTest, AHeaderIsNotKept) {
  const auto copies = std::make_shared<ShardCopies>(folder_ / "copies", kAmple);
  copies->make_folder();
  const auto source = make_keeping_store(store_, copies)->open("m");
  EXPECT_EQ(read(*source, 0, 100), wanted(0, 100));
  EXPECT_FALSE(copy().has_value());
}

TEST_F(ShardCopiesTest, WhatAnEndedProcessFetchedIsNotFetchedAgain) {
  {
    const Process p = process();
    read(*p.source, 0, 1000);
    read(*p.source, 1000, 500);
    read(*p.source, 3000, 10);
  }
  const Process p = process();
  EXPECT_EQ(read(*p.source, 200, 1300), wanted(200, 1300));
  EXPECT_EQ(read(*p.source, 3000, 10), wanted(3000, 10));
  EXPECT_EQ(fetched(), 3U);
  EXPECT_EQ(read(*p.source, 1400, 200), wanted(1400, 200));
  EXPECT_EQ(fetched(), 4U);
}

TEST_F(ShardCopiesTest, ACopyCutAnywhereGivesTheBytesOfTheFile) {
  {
    const Process p = process();
    read(*p.source, 10, 40);
    read(*p.source, 50, 30);
  }
  const std::string whole = testing::file_text(*copy());
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    folder_.write("copies/" + copy()->filename().string(), whole.substr(0, length));
    const Process p = process();
    ASSERT_EQ(read(*p.source, 10, 70), wanted(10, 70)) << length;
  }
}

TEST_F(ShardCopiesTest, ACopyWithAnyByteChangedGivesTheBytesOfTheFile) {
  {
    const Process p = process();
    read(*p.source, 10, 40);
    read(*p.source, 50, 30);
  }
  const std::string whole = testing::file_text(*copy());
  std::size_t fetched_again = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    folder_.write("copies/" + copy()->filename().string(), damaged);
    const std::uint64_t before = fetched();
    const Process p = process();
    ASSERT_EQ(read(*p.source, 10, 40), wanted(10, 40)) << at;
    ASSERT_EQ(read(*p.source, 50, 30), wanted(50, 30)) << at;
    fetched_again += fetched() > before ? 1 : 0;
  }
  EXPECT_EQ(fetched_again, whole.size());
}

TEST_F(ShardCopiesTest, TheBudgetBoundsTheFolder) {
  const Process p = process(1000);
  for (std::uint64_t at = 0; at < 4000; at += 400) {
    EXPECT_EQ(read(*p.source, at, 400), wanted(at, 400));
  }
  EXPECT_LE(fs::file_size(*copy()), 1000U + 200U);  // and a heading
  EXPECT_EQ(p.copies->statistics().kept_bytes, 2 * ShardCopy::record_bytes(400));
  EXPECT_GT(p.copies->statistics().refused_bytes, 0U);
  EXPECT_LE(p.copies->statistics().most_bytes, 1000U);
  EXPECT_NE(copies_text(*p.copies).find("--disk-budget was used up"), std::string::npos);
}

TEST_F(ShardCopiesTest, WhatOthersLeftCountsAgainstTheBudget) {
  {
    const Process p = process();
    read(*p.source, 0, 900);
  }
  store_->set_version("m", "two");
  const Process p = process(1000);
  EXPECT_EQ(read(*p.source, 0, 900), wanted(0, 900));
  EXPECT_EQ(p.copies->statistics().kept_bytes, 0U);
}

TEST_F(ShardCopiesTest, StoredResultsRemoveCopyAndFolder) {
  {
    const Process p = process();
    read(*p.source, 0, 1000);
    ASSERT_TRUE(copy().has_value());
    p.source->results_are_stored();
    EXPECT_FALSE(copy().has_value());
    // It may be read still, and is fetched then.
    EXPECT_EQ(read(*p.source, 0, 10), wanted(0, 10));
    EXPECT_FALSE(copy().has_value());
  }
  EXPECT_FALSE(fs::exists(folder_ / "copies"));
}

TEST_F(ShardCopiesTest, AnotherVersionIsAnotherCopy) {
  {
    const Process p = process();
    read(*p.source, 0, 1000);
  }
  store_->set_version("m", "two");
  store_->at("m").bytes[5] = 'x';
  const Process p = process();
  EXPECT_EQ(read(*p.source, 0, 10), store_->at("m").bytes.substr(0, 10));
  EXPECT_EQ(fetched(), 2U);
}

TEST_F(ShardCopiesTest, ACopyInUseIsLeftToItsProcess) {
  const Process first = process();
  read(*first.source, 0, 1000);
  const Process second = process();
  EXPECT_EQ(read(*second.source, 0, 1000), wanted(0, 1000));
  EXPECT_EQ(fetched(), 2U);
  EXPECT_NE(second.copies->statistics().error.find("another process"), std::string::npos);
  EXPECT_EQ(read(*first.source, 0, 1000), wanted(0, 1000));
  EXPECT_EQ(fetched(), 2U);
}

TEST_F(ShardCopiesTest, AHardLinkInThePlaceOfACopyIsNotWrittenThrough) {
  {
    const Process first = process();
    read(*first.source, 0, 1000);
  }
  std::string path;
  for (const auto& entry : fs::directory_iterator(folder_ / "copies")) {
    path = entry.path().string();
  }
  const std::string text = testing::file_text(path);
  fs::rename(path, folder_ / "precious");
  fs::create_hard_link(folder_ / "precious", path);
  const Process second = process();
  EXPECT_EQ(read(*second.source, 2000, 1000), wanted(2000, 1000));
  EXPECT_NE(second.copies->statistics().error.find("no file of its own"), std::string::npos);
  EXPECT_EQ(testing::file_text(folder_ / "precious"), text);
}

TEST_F(ShardCopiesTest, ADiskThatRefusesCostsTheCopyAlone) {
  const Process p = process();
  {
    const testing::FileSizeLimit limit(600);
    EXPECT_EQ(read(*p.source, 0, 1000), wanted(0, 1000));
  }
  EXPECT_NE(p.copies->statistics().error.find("could not be kept"), std::string::npos);
  EXPECT_EQ(read(*p.source, 0, 1000), wanted(0, 1000));  // kept now
  EXPECT_EQ(read(*p.source, 0, 1000), wanted(0, 1000));
  EXPECT_EQ(fetched(), 2U);
}

TEST_F(ShardCopiesTest, RangesThatOverlapAnyWayAreRight) {
  std::minstd_rand draw(11);
  for (int run = 0; run < 20; ++run) {
    const Process p = process(run % 2 == 0 ? kAmple : 2000);
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t offset = draw() % (bytes_.size() - 1);
      const std::size_t bytes = 1 + draw() % std::min<std::size_t>(700, bytes_.size() - offset);
      ASSERT_EQ(read(*p.source, offset, bytes), wanted(offset, bytes));
    }
    if (run % 5 == 4) {
      p.source->results_are_stored();
    }
  }
}

}  // namespace
}  // namespace vindex::input::shard_copies_test
