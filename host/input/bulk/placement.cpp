// Owns the places where ranges of files go in memory so that direct reads land in place, and what
// to say of a read.
#include "bulk_reader.hpp"

#include "core/integers.hpp"
#include "core/text/size_text.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

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
  const auto room_behind = [&](const Placement::Piece& piece) {
    return ceil_divide(piece.at + piece.range.bytes, kDirectAlignment) * kDirectAlignment;
  };
  for (const std::size_t i : order) {
    const ByteRange& range = ranges[i];
    expects(range.offset + range.bytes >= range.offset, "a range within the address space");
    if (!out.pieces.empty()) {
      Placement::Piece& last = out.pieces.back();
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

std::string reading_text(const ReadStatistics& s, const std::string& engine) {
  std::string out = "read " + data_text(s.bytes());
  if (s.busy_seconds > 0.0) {
    out += fmt::format(" at {}/s", data_text(static_cast<double>(s.bytes()) / s.busy_seconds));
  }
  const auto part = [&](std::uint64_t bytes, const std::string& way) {
    if (bytes > 0) {
      out += fmt::format(", {} {}", data_text(bytes), way);
    }
  };
  part(s.direct_bytes, fmt::format("straight from the storage ({})", engine));
  part(s.cached_bytes, "from the system's file cache");
  part(s.buffered_bytes, "from the storage through the file cache");
  part(s.other_bytes, "from other sources");
  if (s.prefers_buffered) {
    out +=
        fmt::format("; through the file cache by choice: a request came at {}/s, directly at {}/s",
                    data_text(s.buffered_rate), data_text(s.direct_rate));
  }
  if (!s.refused.empty()) {
    out += fmt::format("; direct reads refused for {} file{}, first {}", s.refused.size(),
                       s.refused.size() == 1 ? "" : "s", s.refused.front());
  }
  return out;
}

}  // namespace vindex::input
