// Owns what the decode tests share: comparison of bits, every SIMD level of this machine, random
// encoded matrices.
#pragma once
#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "decode/encoding_table.hpp"
#include "decode/formats/visit_encoding.hpp"
#include "decode/simd_level.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace vindex::decode::testing {

/// Equal bits, or both NaN (sign and payload of a NaN are not promised).
inline bool same_weight(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

inline ::testing::AssertionResult same_weights(const std::vector<float>& got,
                                               const std::vector<float>& wanted) {
  if (got.size() != wanted.size()) {
    return ::testing::AssertionFailure() << got.size() << " weights, wanted " << wanted.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!same_weight(got[i], wanted[i])) {
      return ::testing::AssertionFailure()
             << "weight " << i << " is " << got[i] << " (bits "
             << std::bit_cast<std::uint32_t>(got[i]) << "), wanted " << wanted[i] << " (bits "
             << std::bit_cast<std::uint32_t>(wanted[i]) << ")";
    }
  }
  return ::testing::AssertionSuccess();
}

inline std::vector<SimdLevel> supported_levels() {
  std::vector<SimdLevel> levels;
  for (const SimdLevel level : {SimdLevel::kBaseline, SimdLevel::kAvx2, SimdLevel::kAvx512}) {
    if (is_supported(level)) {
      levels.push_back(level);
    }
  }
  return levels;
}

inline std::vector<float> decoded_at(SimdLevel level, const EncodedMatrix& matrix) {
  std::vector<float> out(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode_matrix_at(level, matrix, out.data(), matrix.cols);
  return out;
}

inline std::vector<float> decoded(const EncodedMatrix& matrix) {
  return decoded_at(best_simd_level(), matrix);
}

/// Every weight by the decoder's at(): the definition that the fast loops must reproduce.
inline std::vector<float> decoded_one_by_one(const EncodedMatrix& matrix) {
  std::vector<float> out(static_cast<std::size_t>(matrix.rows * matrix.cols));
  const DecodeView view = decode_view(matrix);
  visit_encoding(*matrix.encoding, [&]<typename Decoder>(Decoder) {
    for (std::int64_t row = 0; row < view.rows; ++row) {
      for (std::int64_t col = 0; col < view.cols; ++col) {
        out[static_cast<std::size_t>(row * view.cols + col)] = Decoder::at(view, row, col);
      }
    }
  });
  return out;
}

/// An encoded matrix of random bytes in blocks `misalignment` bytes after an aligned address.
class RandomMatrix {
 public:
  RandomMatrix(const SampleShape& shape, std::uint32_t seed, std::size_t misalignment = 0)
      : random_(seed), sample_(shape, misalignment, [this](auto values, auto, auto) {
          for (std::uint8_t& value : values) {
            value = static_cast<std::uint8_t>(random_());
          }
        }) {}
  /// Of an encoding that needs no companion but scales.
  RandomMatrix(const Encoding& encoding, std::int64_t rows, std::int64_t cols, std::uint32_t seed,
               std::size_t misalignment = 0, ElementType scale_type = ElementType::kF32)
      : RandomMatrix({.encoding = encoding, .rows = rows, .cols = cols, .scale_type = scale_type},
                     seed, misalignment) {}
  const EncodedMatrix& matrix() const { return sample_.matrix(); }

 private:
  std::mt19937 random_;
  EncodedSample sample_;
};

inline constexpr std::uint8_t kHalfOne[2] = {0x00, 0x3C};       // 1.0
inline constexpr std::uint8_t kHalfMinusTwo[2] = {0x00, 0xC0};  // -2.0

/// One block of a plain type, decoded.
inline std::vector<float> decoded_block(ElementType type, const std::vector<std::uint8_t>& bytes) {
  const Encoding encoding = plain_encoding(type);
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = 1;
  matrix.cols = element_type_row(type).block_elements;
  matrix.codes = reinterpret_cast<const std::byte*>(bytes.data());
  matrix.row_stride_bytes = static_cast<std::int64_t>(bytes.size());
  return decoded(matrix);
}

inline std::vector<std::uint8_t> zero_block(ElementType type) {
  return std::vector<std::uint8_t>(static_cast<std::size_t>(element_type_row(type).block_bytes),
                                   std::uint8_t{0});
}

inline void put_half(std::vector<std::uint8_t>& bytes, std::size_t at,
                     const std::uint8_t (&half)[2]) {
  bytes[at] = half[0];
  bytes[at + 1] = half[1];
}

/// Every decodable format in every form, at least rows x cols.
inline std::vector<SampleShape> sample_shapes(std::int64_t rows, std::int64_t cols,
                                              std::int32_t group = 16) {
  std::vector<SampleShape> shapes;
  for (const FormatRow& row : format_rows()) {
    for (SampleShape& shape : shapes_of(row, rows, cols, group)) {
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

}  // namespace vindex::decode::testing
