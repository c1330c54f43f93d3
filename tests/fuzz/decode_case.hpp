// Owns turning any bytes into an encoded matrix of any decodable format, in buffers of exactly the
// size that the format says, so that a read beyond them is seen.
#pragma once

#include <vindex/decode/encoding.hpp>
#include <vindex/decode/encoding_table.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace vindex::fuzz {

/// Byte 0 chooses the format, 1 the rows (1 to 8), 2 the columns in blocks (1 to 8), 3 the groups
/// of scales and their type, 4 how far the codes lie off alignment; the rest fills codes, then
/// scales.
class DecodeCase {
 public:
  explicit DecodeCase(std::span<const std::uint8_t> data) {
    const auto choice = [&](std::size_t i, std::size_t count) {
      return static_cast<std::int64_t>(i < data.size() ? data[i] % count : 0);
    };
    const auto rows_of_table = decode::format_rows();
    const decode::FormatRow& format =
        rows_of_table[static_cast<std::size_t>(choice(0, rows_of_table.size()))];
    encoding_.scheme = format.scheme;
    encoding_.type = format.type;
    encoding_.bits = format.bits;
    if (format.scheme == decode::Scheme::kPlain) {
      encoding_ = decode::plain_encoding(format.type);
    } else {
      encoding_.block_rows =
          format.scheme == decode::Scheme::kFp8Block ? 1 + static_cast<int>(choice(3, 3)) : 1;
      encoding_.block_cols = 8 * static_cast<int>(choice(3, 4));  // 0: one per row
    }
    matrix_.encoding = &encoding_;
    matrix_.rows = 1 + choice(1, 8);
    matrix_.cols = decode::column_granularity(encoding_) * (1 + choice(2, 8));
    const auto row_bytes =
        decode::row_bytes(encoding_, static_cast<std::uint64_t>(matrix_.cols)).value();
    const auto shift = static_cast<std::size_t>(choice(4, 4));
    data = data.subspan(std::min<std::size_t>(data.size(), 5));
    codes_.assign(shift + row_bytes * static_cast<std::uint64_t>(matrix_.rows), 0);
    fill(std::span(codes_).subspan(shift), data);
    matrix_.codes = reinterpret_cast<const std::byte*>(codes_.data() + shift);
    matrix_.row_stride_bytes = static_cast<std::int64_t>(row_bytes);
    if (format.scheme != decode::Scheme::kPlain) {
      add_scales(data);
    }
  }

  const decode::EncodedMatrix& matrix() const { return matrix_; }

 private:
  static void fill(std::span<std::uint8_t> into, std::span<const std::uint8_t>& data) {
    const std::size_t count = std::min(into.size(), data.size());
    std::copy_n(data.begin(), count, into.begin());
    data = data.subspan(count);
  }

  void add_scales(std::span<const std::uint8_t> data) {
    constexpr decode::ElementType kTypes[] = {decode::ElementType::kF32, decode::ElementType::kBF16,
                                              decode::ElementType::kF16};
    decode::Companion scale;
    scale.type = kTypes[data.size() % 3];
    scale.rows = (matrix_.rows + encoding_.block_rows - 1) / encoding_.block_rows;
    scale.cols = encoding_.block_cols == 0
                     ? 1
                     : (matrix_.cols + encoding_.block_cols - 1) / encoding_.block_cols;
    scales_.assign(
        decode::stored_bytes(scale.type, static_cast<std::uint64_t>(scale.rows * scale.cols))
            .value(),
        0);
    fill(scales_, data);
    scale.bytes = std::as_bytes(std::span(scales_));
    matrix_.companions[0] = scale;
    matrix_.companion_count = 1;
  }

  decode::Encoding encoding_;
  decode::EncodedMatrix matrix_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::uint8_t> scales_;
};

}  // namespace vindex::fuzz
