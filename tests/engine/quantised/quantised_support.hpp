// Owns what the tests of quantised layouts share: packing written from the layouts' descriptions
// one bit at a time, unlike the decoders, and scales whose values are exact.
#pragma once

#include "tests/engine/model_folder.hpp"

#include <cmath>
#include <random>

namespace vindex::commands::testing {

inline const std::string kBase = "model.layers.1.mlp.experts.0.down_proj";
inline const std::string kWeight = kBase + ".weight";

/// Small random numbers below `limit`.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  std::vector<std::uint32_t> many(std::int64_t count, std::uint32_t limit) {
    std::vector<std::uint32_t> values(static_cast<std::size_t>(count));
    for (std::uint32_t& value : values) {
      value = below(limit);
    }
    return values;
  }
  /// bfloat16 codes of positive and negative numbers around 0.01.
  std::vector<std::uint16_t> bf16(std::int64_t count) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (std::uint16_t& value : values) {
      value = static_cast<std::uint16_t>(0x3C00U + below(0x200) + (below(4) == 0 ? 0x8000U : 0U));
    }
    return values;
  }
  /// float16 codes, subnormal ones among them.
  std::vector<std::uint16_t> f16(std::int64_t count) {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
    for (std::uint16_t& value : values) {
      value =
          static_cast<std::uint16_t>(below(8) == 0 ? 1U + below(0x3FF) : 0x1C00U + below(0x800));
    }
    return values;
  }
  std::vector<float> f32(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
      value = std::ldexp(static_cast<float>(1U + below(1U << 24U)), -30) *
              (below(4) == 0 ? -1.0F : 1.0F);
    }
    return values;
  }

 private:
  std::mt19937 random_;
};

inline float bf16_value(std::uint16_t code) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 16U);
}

inline float f16_value(std::uint16_t code) {
  const int exponent = (code >> 10) & 31;
  const int mantissa = code & 1023;
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(code & 0x8000 ? -value : value);
}

/// An OFP8 or FNUZ code by its definition; NaN by the caller.
inline float f8_value(std::uint32_t code, int mantissa_bits, int bias) {
  const int magnitude = static_cast<int>(code & 127U);
  const int exponent = magnitude >> mantissa_bits;
  const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
  const double value =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
  return static_cast<float>(code & 128U ? -value : value);
}

inline float e2m1_value(std::uint32_t code) {
  constexpr float kMagnitudes[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  return std::copysign(kMagnitudes[code & 7U], (code & 8U) != 0 ? -1.0F : 1.0F);
}

/// Words of a line of codes, least significant bits first: one stream, or whole codes per word.
inline std::vector<std::uint32_t> packed(const std::vector<std::uint32_t>& codes, int bits,
                                         bool padded = false) {
  const std::size_t width = static_cast<std::size_t>(bits);
  const std::size_t per_word = 32 / width;
  const std::size_t count =
      padded ? (codes.size() + per_word - 1) / per_word : (codes.size() * width + 31) / 32;
  std::vector<std::uint32_t> words(count, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t first = padded ? i / per_word * 32 + i % per_word * width : i * width;
    for (std::size_t bit = 0; bit < width; ++bit) {
      words[(first + bit) / 32] |= (codes[i] >> bit & 1U) << ((first + bit) % 32);
    }
  }
  return words;
}

/// packed() of every row of a rows x cols matrix, rows x words.
inline std::vector<std::uint32_t> packed_rows(const std::vector<std::uint32_t>& codes,
                                              std::int64_t cols, int bits, bool padded = false) {
  std::vector<std::uint32_t> words;
  for (std::size_t i = 0; i < codes.size(); i += static_cast<std::size_t>(cols)) {
    const auto first = codes.begin() + static_cast<std::ptrdiff_t>(i);
    const auto line = packed({first, first + cols}, bits, padded);
    words.insert(words.end(), line.begin(), line.end());
  }
  return words;
}

/// The transpose of a rows x cols matrix.
template <typename T>
std::vector<T> transposed(const std::vector<T>& values, std::int64_t rows, std::int64_t cols) {
  std::vector<T> out(values.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out[static_cast<std::size_t>(c * rows + r)] = values[static_cast<std::size_t>(r * cols + c)];
    }
  }
  return out;
}

/// packed() of every column, words x cols.
inline std::vector<std::uint32_t> packed_columns(const std::vector<std::uint32_t>& codes,
                                                 std::int64_t rows, std::int64_t cols, int bits,
                                                 bool padded = false) {
  const auto lines = packed_rows(transposed(codes, rows, cols), rows, bits, padded);
  return transposed(lines, cols, static_cast<std::int64_t>(lines.size()) / cols);
}

/// Pairs of nibbles, the low one first or the high one.
inline Bytes nibbles(const std::vector<std::uint32_t>& codes, bool low_first) {
  Bytes bytes((codes.size() + 1) / 2, 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    bytes[i / 2] =
        static_cast<std::uint8_t>(bytes[i / 2] | codes[i] << ((i % 2 == 0) == low_first ? 0U : 4U));
  }
  return bytes;
}

inline Bytes narrow(const std::vector<std::uint32_t>& codes) {
  return {codes.begin(), codes.end()};
}

/// weight(row, col) for all of rows x cols.
template <typename Weight>
std::vector<float> weights_of(std::int64_t rows, std::int64_t cols, Weight&& weight) {
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(rows * cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      out.push_back(weight(static_cast<std::size_t>(r), static_cast<std::size_t>(c)));
    }
  }
  return out;
}

}  // namespace vindex::commands::testing
