// Few large ranges of many requests, and every byte where it was asked for.
#include "input/http/http_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::input::http_ranges_test {
namespace {

/// Its memory is never touched.
ReadRequest request(std::uint64_t offset, std::uint64_t bytes) {
  return {offset, {reinterpret_cast<std::byte*>(4096), static_cast<std::size_t>(bytes)}};
}

TEST(HttpRangesTest, NeighboursShareOneAndLargeOnesAreCut) {
  const std::vector<HttpRange> ranges =
      http_ranges({request(0, 10), request(10 + kLargestGap, 5), request(20 + 3 * kLargestGap, 1),
                   request(kLargestRange, 2 * kLargestRange)});
  ASSERT_EQ(ranges.size(), 4U);
  EXPECT_EQ(ranges[0].offset, 0U);
  EXPECT_EQ(ranges[0].bytes, 15 + kLargestGap);
  EXPECT_EQ(ranges[0].into.size(), 2U);
  EXPECT_EQ(ranges[1].bytes, 1U);
  EXPECT_EQ(ranges[2].offset, kLargestRange);
  EXPECT_EQ(ranges[2].bytes, kLargestRange);
  EXPECT_EQ(ranges[3].offset, 2 * kLargestRange);
  EXPECT_EQ(ranges[3].bytes, kLargestRange);
}

TEST(HttpRangesTest, BytesArriveInPiecesOfAnySize) {
  std::vector<std::byte> file(300);
  for (std::size_t i = 0; i < file.size(); ++i) {
    file[i] = static_cast<std::byte>(i);
  }
  for (std::size_t piece : {1U, 7U, 64U, 300U}) {
    std::vector<std::byte> a(40), b(30), c(40);
    std::vector<HttpRange> ranges = http_ranges({{100, a}, {110, b}, {200, c}});
    ASSERT_EQ(ranges.size(), 1U);
    HttpRange& range = ranges.front();
    ASSERT_EQ(range.bytes, 140U);
    for (std::size_t at = 0; at < range.bytes; at += piece) {
      const std::size_t bytes = std::min<std::size_t>(piece, range.bytes - at);
      EXPECT_TRUE(range.take(std::span(file).subspan(100 + at, bytes)));
    }
    EXPECT_TRUE(std::equal(a.begin(), a.end(), file.begin() + 100));
    EXPECT_TRUE(std::equal(b.begin(), b.end(), file.begin() + 110));
    EXPECT_TRUE(std::equal(c.begin(), c.end(), file.begin() + 200));
    EXPECT_FALSE(range.take(std::span(file).first(1)));
    EXPECT_FALSE(range.fault.empty());
  }
}

}  // namespace
}  // namespace vindex::input::http_ranges_test
