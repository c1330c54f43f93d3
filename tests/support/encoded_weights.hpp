// Owns a matrix that was encoded for a test, with its scales.
#pragma once

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vindex::testing {

struct EncodedWeights {
  decode::Encoding encoding;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<std::byte> codes = {};
  std::vector<std::byte> scales = {};
  decode::EncodingLoss loss = {};

  /// Refers to this object.
  decode::EncodedMatrix view() const {
    decode::EncodedMatrix matrix;
    matrix.encoding = &encoding;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.codes = codes.data();
    matrix.row_stride_bytes = static_cast<std::int64_t>(codes.size()) / rows;
    if (!scales.empty()) {
      const bool fp8 = encoding.scheme == decode::Scheme::kFp8Block;
      matrix.companions[0] = {decode::CompanionRole::kScale,
                              fp8 ? decode::ElementType::kF32 : decode::ElementType::kBF16,
                              ceil_divide(rows, encoding.block_rows),
                              ceil_divide(cols, encoding.block_cols), scales};
      matrix.companion_count = 1;
    }
    return matrix;
  }
  /// Decoded.
  std::vector<float> weights() const {
    std::vector<float> out(static_cast<std::size_t>(rows * cols));
    decode::decode_matrix(view(), out.data(), cols);
    return out;
  }
};

/// `values`, rows x cols, as an encoder writes them.
inline EncodedWeights encoded_weights(const decode::Encoding& encoding, std::int64_t rows,
                                      std::int64_t cols, const std::vector<float>& values) {
  EncodedWeights out{encoding, rows, cols};
  const auto size = decode::encoded_size(encoding, rows, cols).value();
  out.codes.resize(size.code_bytes);
  out.scales.resize(size.scale_bytes);
  out.loss =
      decode::encode_matrix(encoding, values.data(), rows, cols, cols, out.codes, out.scales);
  return out;
}

}  // namespace vindex::testing
