// Owns merging requests that lie close together, and copying the bytes of an answer to every
// request that they serve.
#include "http_ranges.hpp"

#include <algorithm>
#include <cstring>

namespace vindex::input {

bool HttpRange::take(std::span<const std::byte> data) {
  if (data.size() > bytes - received) {
    fault = "the server sends more bytes than were asked for";
    return false;
  }
  const std::uint64_t begin = offset + received;
  const std::uint64_t end = begin + data.size();
  for (std::size_t i = current; i < into.size() && into[i].offset < end; ++i) {
    const ReadRequest& request = into[i];
    const std::uint64_t request_end = request.offset + request.into.size();
    const std::uint64_t from = std::max(begin, request.offset);
    const std::uint64_t to = std::min(end, request_end);
    if (from < to) {
      std::memcpy(request.into.data() + (from - request.offset), data.data() + (from - begin),
                  static_cast<std::size_t>(to - from));
    }
    if (i == current && request_end <= end) {
      ++current;
    }
  }
  received += data.size();
  return true;
}

std::vector<HttpRange> http_ranges(const std::vector<ReadRequest>& requests) {
  std::vector<HttpRange> ranges;
  for (ReadRequest request : requests) {
    while (!request.into.empty()) {
      bool joins = false;
      if (!ranges.empty()) {
        const HttpRange& last = ranges.back();
        const std::uint64_t end = last.offset + last.bytes;
        joins = request.offset <= end + kLargestGap &&
                request.offset < last.offset + kLargestRange && request.offset >= last.offset;
      }
      if (!joins) {
        ranges.push_back({.offset = request.offset, .into = {}, .fault = {}});
      }
      HttpRange& range = ranges.back();
      const std::uint64_t room = range.offset + kLargestRange - request.offset;
      const std::size_t bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(room, request.into.size()));
      range.into.push_back({request.offset, request.into.first(bytes)});
      range.bytes = std::max(range.bytes, request.offset + bytes - range.offset);
      request = {request.offset + bytes, request.into.subspan(bytes)};
    }
  }
  return ranges;
}

}  // namespace vindex::input
