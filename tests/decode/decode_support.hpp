// Owns what the decode tests share: comparison of bits, every SIMD level of this machine, and
// random encoded matrices whose buffers end where their last byte ends.
#pragma once

#include <vindex/decode/decode_matrix.hpp>
#include <vindex/decode/encoding_table.hpp>
#include <vindex/decode/simd_level.hpp>
#include <vindex/decode/visit_encoding.hpp>

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

/// An encoded matrix of random bytes. Codes and scales lie at the very end of their own heap
/// blocks, `misalignment` bytes after an aligned address, so that a sanitizer sees any read past
/// them.
class RandomMatrix {
 public:
  RandomMatrix(const Encoding& encoding, std::int64_t rows, std::int64_t cols, std::uint32_t seed,
               std::size_t misalignment = 0, ElementType scale_type = ElementType::kF32)
      : encoding_(std::make_unique<Encoding>(encoding)) {
    std::mt19937 random(seed);
    matrix_.encoding = encoding_.get();
    matrix_.rows = rows;
    matrix_.cols = cols;
    const auto stride = row_bytes(encoding, static_cast<std::uint64_t>(cols)).value();
    matrix_.row_stride_bytes = static_cast<std::int64_t>(stride);
    matrix_.codes =
        fill(codes_, stride * static_cast<std::size_t>(rows), misalignment, random).data();
    if (encoding.scheme == Scheme::kPlain) {
      return;
    }
    Companion& scale = matrix_.companions[0];
    scale.role = CompanionRole::kScale;
    scale.type = scale_type;
    scale.rows = blocks(rows, encoding.block_rows);
    scale.cols = blocks(cols, encoding.block_cols);
    const auto count = static_cast<std::uint64_t>(scale.rows * scale.cols);
    scale.bytes = fill(scales_, stored_bytes(scale_type, count).value(), misalignment, random);
    matrix_.companion_count = 1;
  }
  const EncodedMatrix& matrix() const { return matrix_; }

 private:
  static std::int64_t blocks(std::int64_t length, std::int64_t block) {
    return block == 0 ? 1 : (length + block - 1) / block;
  }
  static std::span<const std::byte> fill(std::unique_ptr<std::byte[]>& owner, std::size_t bytes,
                                         std::size_t misalignment, std::mt19937& random) {
    owner = std::make_unique<std::byte[]>(bytes + misalignment);
    for (std::size_t i = 0; i < bytes + misalignment; ++i) {
      owner[i] = static_cast<std::byte>(random());
    }
    return {owner.get() + misalignment, bytes};
  }

  std::unique_ptr<Encoding> encoding_;
  std::unique_ptr<std::byte[]> codes_;
  std::unique_ptr<std::byte[]> scales_;
  EncodedMatrix matrix_;
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

/// One encoding per decodable format.
inline std::vector<Encoding> decodable_encodings() {
  std::vector<Encoding> encodings;
  for (const FormatRow& row : format_rows()) {
    switch (row.scheme) {
      case Scheme::kFp8Block:
        encodings.push_back(fp8_block_encoding(3, 128));
        break;
      case Scheme::kPackedInt:
        encodings.push_back(packed_int_encoding(row.bits, 32));
        break;
      default:
        encodings.push_back(plain_encoding(row.type));
    }
  }
  return encodings;
}

}  // namespace vindex::decode::testing
