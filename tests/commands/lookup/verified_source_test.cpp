// Bytes of a file that pass their digests, any cut of them, and every flip of a byte.
#include "commands/lookup/store/verified_source.hpp"

#include "commands/lookup/store/gate_vector_layout.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace vindex::commands::verified_source_test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes noise(std::size_t count) {
  std::mt19937 random(5);
  Bytes bytes(count);
  for (std::byte& one : bytes) {
    one = static_cast<std::byte>(random());
  }
  return bytes;
}

VerifiedRange range_of(const Bytes& file, std::uint64_t first, std::uint64_t bytes,
                       std::uint64_t block) {
  VerifiedRange range{.first = first, .bytes = bytes, .block_bytes = block, .digests = {}};
  for (std::uint64_t at = 0; at < bytes; at += block) {
    range.digests.push_back(
        block_digest(std::span(file).subspan(first + at, std::min(block, bytes - at))));
  }
  return range;
}

/// Ranges [100, 610) in blocks of 64 and [700, 733) in one of 50.
std::unique_ptr<ByteSource> verified(const Bytes& written, const Bytes& found) {
  return make_verified_source(input::make_memory_source("file", found),
                              {range_of(written, 100, 510, 64), range_of(written, 700, 33, 50)});
}

TEST(VerifiedSource, EveryCutOfItsRangesIsTheFile) {
  const Bytes file = noise(800);
  const auto source = verified(file, file);
  for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{100, 610}, {700, 733}}) {
    for (std::size_t first = begin; first <= end; ++first) {
      for (std::size_t last = first; last <= end; last += 1 + last % 7) {
        Bytes read(last - first);
        source->read(first, read);
        ASSERT_TRUE(std::equal(read.begin(), read.end(), file.begin() + static_cast<long>(first)))
            << first << " to " << last;
      }
    }
  }
  EXPECT_EQ(source->descriptor(), -1) << "readers would bypass the digests";
}

TEST(VerifiedSource, AFlippedByteIsRefusedWhereItsBlockIsRead) {
  const Bytes file = noise(800);
  for (std::size_t at = 100; at < 610; at += 13) {
    Bytes damaged = file;
    damaged[at] ^= std::byte{4};
    const auto source = verified(file, damaged);
    const std::size_t block = 100 + (at - 100) / 64 * 64;
    Bytes read(1);
    for (std::size_t first = 100; first < 610; first += 9) {
      const bool is_hit = first >= block && first < block + 64;
      EXPECT_EQ(testing::outcome_of([&] { source->read(first, read); }),
                is_hit ? "E-RESULTS-DATA 65" : "")
          << at << ", read at " << first;
    }
    Bytes whole(510);
    EXPECT_EQ(testing::outcome_of([&] { source->read(100, whole); }), "E-RESULTS-DATA 65");
  }
}

}  // namespace
}  // namespace vindex::commands::verified_source_test
