// Owns the places where ranges of files go in memory so that direct reads land in place.
#include "placement.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

namespace vindex::input {

Placement place_ranges(std::span<const ByteRange> ranges, std::uint64_t largest_gap) {
  std::vector<std::size_t> order(ranges.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (ranges[a].source != ranges[b].source) {
      return std::less<>()(ranges[a].source, ranges[b].source);
    }
    return std::pair(ranges[a].offset, a) < std::pair(ranges[b].offset, b);
  });
  Placement out;
  out.at.resize(ranges.size());
  const auto room_behind = [&](const Placement::MergedRange& piece) {
    return ceil_divide(piece.at + piece.range.bytes, kDirectAlignment) * kDirectAlignment;
  };
  for (const std::size_t i : order) {
    const ByteRange& range = ranges[i];
    expects(range.offset + range.bytes >= range.offset, "a range within the address space");
    if (!out.pieces.empty()) {
      Placement::MergedRange& last = out.pieces.back();
      const std::uint64_t end = last.range.offset + last.range.bytes;
      if (last.range.source == range.source &&
          (range.offset <= end || range.offset - end <= largest_gap)) {
        out.at[i] = last.at + (range.offset - last.range.offset);
        last.range.bytes = std::max(end, range.offset + range.bytes) - last.range.offset;
        continue;
      }
    }
    const std::uint64_t begin = out.pieces.empty() ? 0 : room_behind(out.pieces.back());
    out.pieces.push_back({range, begin + range.offset % kDirectAlignment});
    out.at[i] = out.pieces.back().at;
  }
  out.bytes = out.pieces.empty() ? 0 : room_behind(out.pieces.back());
  return out;
}

}  // namespace vindex::input
