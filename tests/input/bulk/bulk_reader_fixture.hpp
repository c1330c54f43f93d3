// Owns what the tests of bulk reading share: a file of random text, memory for direct reads, and a
// reading that is compared with the file.
#pragma once
#include "input/bulk/bulk_reader.hpp"
#include "input/bulk/placement.hpp"
#include "input/bulk/read_extent.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vindex::input {

inline constexpr std::size_t kFileBytes = (17U << 20U) + 123;

/// Memory that direct reads accept.
class AlignedBlock {
 public:
  explicit AlignedBlock(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, bytes))) {
    std::fill_n(memory_, bytes, std::byte{0xEE});
  }
  ~AlignedBlock() { std::free(memory_); }
  AlignedBlock(const AlignedBlock&) = delete;
  AlignedBlock& operator=(const AlignedBlock&) = delete;
  std::byte* data() { return memory_; }

 private:
  std::byte* memory_;
};

inline std::string random_text(std::size_t bytes) {
  std::mt19937 random(7);
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    const auto word = static_cast<std::uint32_t>(random());
    std::memcpy(text.data() + i, &word, 4);
  }
  return text;
}

/// Reads `ranges` of `reader` and compares them with `content`. Null, or the error.
inline std::exception_ptr read_and_compare(BulkReader& reader, const std::vector<ByteRange>& ranges,
                                           const std::string& content) {
  const Placement placement = place_ranges(ranges, 4096);
  AlignedBlock block(placement.bytes);
  std::vector<BulkExtent> extents;
  for (const Placement::MergedRange& piece : placement.pieces) {
    extents.push_back({piece.range, block.data() + piece.at, true});
  }
  std::promise<std::exception_ptr> done;
  reader.submit(extents, [&](std::exception_ptr error) { done.set_value(std::move(error)); });
  std::exception_ptr error = done.get_future().get();
  if (error == nullptr) {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(std::memcmp(block.data() + placement.at[i], content.data() + ranges[i].offset,
                            ranges[i].bytes),
                0)
          << "range " << i;
    }
  }
  return error;
}

inline std::vector<ByteRange> some_ranges(ByteSource& source) {
  return {{&source, 5, 3},
          {&source, 4095, 9'000'001},
          {&source, 12'000'000, 4096},
          {&source, kFileBytes - 2'000'003, 2'000'003},
          {&source, 12'004'096, 300'000}};
}

template <typename Expected>
void expect_throws(const std::exception_ptr& error, const char* id, ExitCode code) {
  ASSERT_NE(error, nullptr);
  try {
    std::rethrow_exception(error);
  } catch (const Expected& e) {
    EXPECT_EQ(e.id(), id);
    EXPECT_EQ(e.exit_code(), code);
  }
}

class BulkReaderTest : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  std::string content_ = random_text(kFileBytes);
  std::string path_ = folder_.write("f", content_);
  std::unique_ptr<ByteSource> source_ = open_file_source(path_);
};

}  // namespace vindex::input
