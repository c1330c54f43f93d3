// Owns turning any bytes into an encoded matrix of any decodable format, in buffers of exactly the
// size that the format says, so that a read beyond them is seen.
#pragma once

#include "decode/encode/encoded_sample.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

namespace vindex::fuzz {

/// Byte 0 chooses the format, 1 the rows (1 to 8, or what the format makes of them), 2 the columns
/// (1 to 8 blocks), 3 the form of the format and its groups, 4 how far the codes lie off alignment;
/// the rest fills codes, then companions.
class DecodeCase {
 public:
  explicit DecodeCase(std::span<const std::uint8_t> data) {
    const auto choice = [&](std::size_t i, std::size_t count) {
      return i < data.size() ? data[i] % count : std::size_t{0};
    };
    const auto table = decode::format_rows();
    const decode::FormatRow& format = table[choice(0, table.size())];
    const auto rows = static_cast<std::int64_t>(1 + choice(1, 8));
    const auto cols = static_cast<std::int64_t>((1 + choice(2, 8)) * 1ULL) *
                      std::max<std::int64_t>(format.elements, 3);
    const auto group = static_cast<std::int32_t>(8 * (1 + choice(3, 4)));
    const auto shapes = decode::shapes_of(format, rows, cols, group);
    const decode::SampleShape& shape = shapes[choice(3, 16) / 4 % shapes.size()];
    const std::size_t shift = choice(4, 4);
    data = data.subspan(std::min<std::size_t>(data.size(), 5));
    sample_.emplace(shape, shift, [&](std::span<std::uint8_t> into, auto, auto) {
      const std::size_t count = std::min(into.size(), data.size());
      std::copy_n(data.begin(), count, into.begin());
      data = data.subspan(count);
    });
  }

  const decode::EncodedMatrix& matrix() const { return sample_->matrix(); }

 private:
  std::optional<decode::EncodedSample> sample_;
};

}  // namespace vindex::fuzz
