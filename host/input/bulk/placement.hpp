// Owns where ranges of files go in memory so that direct reads land in place.
#pragma once

#include "read_extent.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::input {

/// Where ranges go in one block of memory that begins at a multiple of kDirectAlignment.
struct Placement {
  struct MergedRange {
    ByteRange range;
    std::uint64_t at = 0;  ///< of its first byte in the block
  };
  std::vector<std::uint64_t> at;    ///< per range given: where its first byte lies
  std::vector<MergedRange> pieces;  ///< what to read: neighbours merged, all roomy
  std::uint64_t bytes = 0;          ///< of the block, a multiple of kDirectAlignment
};

/// Places `ranges` so that every one can be read directly and in place. Ranges of one source that
/// overlap or lie at most `largest_gap` bytes apart become one piece, gap included.
Placement place_ranges(std::span<const ByteRange> ranges, std::uint64_t largest_gap);
/// An upper bound of what one range of `bytes` adds to Placement::bytes.
constexpr std::uint64_t placed_bytes_at_most(std::uint64_t bytes, std::uint64_t largest_gap) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment + kDirectAlignment +
         largest_gap;
}

}  // namespace vindex::input
