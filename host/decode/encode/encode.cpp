// Owns the encoders: per block or group one pass for the largest magnitude, one for codes and loss.
#include "encode.hpp"

#include "encode_blocks.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace vindex::decode {
namespace {

constexpr std::int64_t kLanes = 8;

// Sums over fixed lanes: vector code without reassociation, so the same result everywhere.
struct LossLanes {
  double norm[kLanes] = {};
  double error[kLanes] = {};
  double step = 0.0;

  void add(const float* values, const float* decoded, std::int64_t count) {
    const std::int64_t whole = count - count % kLanes;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        add(lane, values[i + lane], decoded[i + lane]);
      }
    }
    for (std::int64_t i = whole; i < count; ++i) {
      add(i - whole, values[i], decoded[i]);
    }
  }
  void add(std::int64_t lane, float value, float decoded) {
    const double wide = value;
    const double difference = static_cast<double>(decoded) - wide;
    norm[lane] += wide * wide;
    error[lane] += difference * difference;
  }
  EncodingLoss total() const {
    EncodingLoss loss;
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      loss.squared_norm += norm[lane];
      loss.squared_error += error[lane];
    }
    loss.largest_step = step;
    return loss;
  }
};

// Largest magnitude of `count` values. Magnitudes compare like their bits, and a largest integer
// may be sought in any order. A NaN comes out as NaN.
float largest_magnitude(const float* values, std::int64_t count) {
  std::int32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::int32_t>(bits_as<std::uint32_t>(values[i]) & 0x7FFFFFFFU);
    largest = bits > largest ? bits : largest;
  }
  return bits_as<float>(largest);
}

// Sets decoded[i] = convert(i), which also stores the code, for every i < count, and adds the loss.
template <typename Convert>
void convert_row(const float* values, std::int64_t count, LossLanes& loss, Convert convert) {
  constexpr std::int64_t kChunk = 128;
  float decoded[kChunk];
  for (std::int64_t start = 0; start < count; start += kChunk) {
    const std::int64_t length = std::min(kChunk, count - start);
    for (std::int64_t i = 0; i < length; ++i) {
      decoded[i] = convert(start + i);
    }
    loss.add(values + start, decoded, length);
  }
}

// Gap between neighbours at the magnitude of the largest value, for `bits` kept mantissa bits.
double step_at(float largest, int bits) {
  return largest > 0.0F ? std::ldexp(1.0, std::ilogb(largest) - bits) : 0.0;
}

// Where the codes of a fp8 block and their decoded values pass on their way.
void encode_fp8_row(const float* values, std::int64_t count, float scale, std::uint8_t* codes,
                    LossLanes& loss) {
  convert_row(values, count, loss, [&](std::int64_t i) {
    const std::uint8_t code = scalar::to_e4m3(values[i] / scale);
    codes[i] = code;
    return scalar::from_e4m3(code) * scale;
  });
}

void encode_fp8(const Encoding& encoding, const float* values, std::int64_t rows, std::int64_t cols,
                std::int64_t stride, std::byte* codes, std::byte* scales, LossLanes& loss) {
  const std::int64_t block_columns = ceil_divide(cols, encoding.block_cols);
  auto* const out = reinterpret_cast<std::uint8_t*>(codes);
  for (std::int64_t row = 0; row < rows; row += encoding.block_rows) {
    const std::int64_t row_end = std::min<std::int64_t>(rows, row + encoding.block_rows);
    for (std::int64_t block = 0; block < block_columns; ++block) {
      const std::int64_t col = block * encoding.block_cols;
      const std::int64_t width = std::min<std::int64_t>(encoding.block_cols, cols - col);
      float largest = 0.0F;
      for (std::int64_t r = row; r < row_end; ++r) {
        largest = std::max(largest, largest_magnitude(values + r * stride + col, width));
      }
      // A zero block keeps scale 1: any scale decodes it, none divides by zero. So does one whose
      // scale would underflow.
      const float wanted = largest / 448.0F;
      const float scale = wanted > 0.0F ? wanted : 1.0F;
      for (std::int64_t r = row; r < row_end; ++r) {
        encode_fp8_row(values + r * stride + col, width, scale, out + r * cols + col, loss);
      }
      loss.step = std::max(loss.step, 32.0 * static_cast<double>(wanted));
      const std::int64_t index = row / encoding.block_rows * block_columns + block;
      std::memcpy(scales + index * 4, &scale, 4);
    }
  }
}

void encode_int4(const Encoding& encoding, const float* values, std::int64_t rows,
                 std::int64_t cols, std::int64_t stride, std::byte* codes, std::byte* scales,
                 LossLanes& loss) {
  const std::int64_t group = encoding.block_cols;
  std::int64_t index = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; col += group, ++index) {
      const float* const from = values + row * stride + col;
      const std::uint16_t code = scalar::to_bf16(largest_magnitude(from, group) / 7.0F);
      const float scale = scalar::from_bf16(code);
      const float divisor = scale > 0.0F ? scale : 1.0F;
      std::memcpy(scales + index * 2, &code, 2);
      loss.step = std::max(loss.step, static_cast<double>(scale));
      for (std::int64_t first = 0; first < group; first += 8) {
        std::uint32_t word = 0;
        for (std::int64_t i = 0; i < 8; ++i) {
          const float value = from[first + i];
          const std::int32_t q = std::clamp(scalar::nearest_even(value / divisor), -7, 7);
          word |= static_cast<std::uint32_t>(q + 8) << (4U * static_cast<std::uint32_t>(i));
          loss.add(i, value, static_cast<float>(q) * scale);
        }
        std::memcpy(codes + (row * cols + col + first) / 2, &word, 4);
      }
    }
  }
}

void encode_blocks(ElementType type, const float* values, std::int64_t rows, std::int64_t cols,
                   std::int64_t stride, std::byte* codes, LossLanes& loss) {
  auto* block = reinterpret_cast<std::uint8_t*>(codes);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t col = 0; col < cols; col += kBlockWeights) {
      const float* const from = values + row * stride + col;
      float decoded[kBlockWeights];
      encode_block(type, from, block);
      decode_block(type, block, decoded);
      loss.add(from, decoded, kBlockWeights);
      loss.step = std::max(loss.step, static_cast<double>(block_step(type, block)));
      block += element_type_row(type).block_bytes;
    }
  }
}

void encode_plain(ElementType type, const float* values, std::int64_t rows, std::int64_t cols,
                  std::int64_t stride, std::byte* codes, LossLanes& loss) {
  float largest = 0.0F;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = values + row * stride;
    if (type == ElementType::kF32) {
      convert_row(from, cols, loss, [&](std::int64_t i) { return from[i]; });
      std::memcpy(codes + row * cols * 4, from, static_cast<std::size_t>(cols) * 4);
      continue;
    }
    if (type == ElementType::kF64) {
      convert_row(from, cols, loss, [&](std::int64_t i) {
        const double wide = from[i];
        std::memcpy(codes + (row * cols + i) * 8, &wide, 8);
        return from[i];
      });
      continue;
    }
    largest = std::max(largest, largest_magnitude(from, cols));
    auto* const out = reinterpret_cast<char*>(codes) + row * cols * 2;
    const bool half = type == ElementType::kF16;
    convert_row(from, cols, loss, [&](std::int64_t i) {
      const std::uint16_t code = half ? scalar::to_f16(from[i]) : scalar::to_bf16(from[i]);
      std::memcpy(out + i * 2, &code, 2);
      return half ? scalar::from_f16(code) : scalar::from_bf16(code);
    });
  }
  if (type == ElementType::kF16 || type == ElementType::kBF16) {
    loss.step = step_at(largest, type == ElementType::kF16 ? 10 : 7);
  }
}

}  // namespace

std::uint16_t encode_bf16(float value) { return scalar::to_bf16(value); }
std::uint16_t encode_f16(float value) { return scalar::to_f16(value); }
std::uint8_t encode_e4m3(float value) { return scalar::to_e4m3(value); }

void EncodingLoss::add(const EncodingLoss& other) {
  squared_norm += other.squared_norm;
  squared_error += other.squared_error;
  largest_step = std::max(largest_step, other.largest_step);
}

double EncodingLoss::relative_error() const {
  return squared_norm == 0.0 ? 0.0 : std::sqrt(squared_error / squared_norm);
}

bool is_encodable(const Encoding& encoding) {
  switch (encoding.scheme) {
    case Scheme::kPlain:
      return encoding.type == ElementType::kF64 || encoding.type == ElementType::kF32 ||
             encoding.type == ElementType::kBF16 || encoding.type == ElementType::kF16 ||
             has_block_encoder(encoding.type);
    case Scheme::kFp8Block:
      return encoding.type == ElementType::kF8E4M3 && encoding.block_rows > 0 &&
             encoding.block_cols > 0;
    case Scheme::kPackedInt:
      return encoding.bits == 4 && encoding.block_cols > 0 && encoding.block_cols % 8 == 0;
    default:
      return false;
  }
}

std::optional<EncodedSize> encoded_size(const Encoding& encoding, std::int64_t rows,
                                        std::int64_t cols) {
  if (!is_encodable(encoding) || rows < 1 || cols < 1) {
    return std::nullopt;
  }
  const auto weights =
      checked_multiply(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols));
  const auto bytes = weights ? checked_multiply(*weights, 4) : std::nullopt;
  if (!bytes || !checked_count(*bytes)) {
    return std::nullopt;
  }
  if (encoding.scheme == Scheme::kFp8Block) {
    const std::int64_t block_rows = ceil_divide(rows, encoding.block_rows);
    const std::int64_t block_columns = ceil_divide(cols, encoding.block_cols);
    return EncodedSize{*weights, static_cast<std::uint64_t>(block_rows * block_columns) * 4};
  }
  if (encoding.scheme == Scheme::kPackedInt) {
    const auto group = static_cast<std::uint64_t>(encoding.block_cols);
    return cols % encoding.block_cols != 0
               ? std::nullopt
               : std::optional(EncodedSize{*weights / 2, *weights / group * 2});
  }
  const auto row_bytes = stored_bytes(encoding.type, static_cast<std::uint64_t>(cols));
  const auto code_bytes =
      row_bytes ? checked_multiply(*row_bytes, static_cast<std::uint64_t>(rows)) : std::nullopt;
  return code_bytes ? std::optional(EncodedSize{*code_bytes, 0}) : std::nullopt;
}

EncodingLoss encode_matrix(const Encoding& encoding, const float* values, std::int64_t rows,
                           std::int64_t cols, std::int64_t stride, std::span<std::byte> codes,
                           std::span<std::byte> scales) {
  const auto size = encoded_size(encoding, rows, cols);
  expects(size && codes.size() == size->code_bytes && scales.size() == size->scale_bytes &&
              stride >= cols,
          "encode_matrix: shapes and buffers that fit the encoding");
  LossLanes loss;
  if (encoding.scheme == Scheme::kFp8Block) {
    encode_fp8(encoding, values, rows, cols, stride, codes.data(), scales.data(), loss);
  } else if (encoding.scheme == Scheme::kPackedInt) {
    encode_int4(encoding, values, rows, cols, stride, codes.data(), scales.data(), loss);
  } else if (has_block_encoder(encoding.type)) {
    encode_blocks(encoding.type, values, rows, cols, stride, codes.data(), loss);
  } else {
    encode_plain(encoding.type, values, rows, cols, stride, codes.data(), loss);
  }
  return loss.total();
}

}  // namespace vindex::decode
