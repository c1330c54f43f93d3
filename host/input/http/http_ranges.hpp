// Owns making few large ranges of many requests, and handing their bytes out as they arrive.
#pragma once

#include "core/files/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vindex::input {

/// One range asked for, and where its bytes go.
struct HttpRange {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<ReadRequest> into;  ///< by offset, within the range
  std::uint64_t received = 0;
  std::size_t current = 0;  ///< the first of `into` that is not full
  std::string fault;        ///< of the answer
  bool changed = false;

  /// Takes the next bytes; false: there are more than were asked for.
  bool take(std::span<const std::byte> data);
};

/// At most so many bytes in one range, and between two requests that share one: a round trip costs
/// more than those.
inline constexpr std::uint64_t kLargestRange = std::uint64_t{64} << 20U;
inline constexpr std::uint64_t kLargestGap = std::uint64_t{64} << 10U;

/// `requests` (by offset) as ranges: neighbours together, large ones cut.
std::vector<HttpRange> http_ranges(const std::vector<ReadRequest>& requests);

}  // namespace vindex::input
