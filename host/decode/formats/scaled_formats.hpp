// Owns the decoders of weights that are one number per byte in one tensor times scales in another.
//   8-bit float  codes F8_E4M3, F8_E5M2 or a FNUZ variant [rows, cols]; scales [ceil(rows /
//                block_rows), ceil(cols / block_cols)]; weight = code * scale, one float32 product;
//                edge blocks are partial, nothing padded. "weight_scale_inv" multiplies too. One
//                scale, or one per row, or per 32 columns (mx) are blocks of those sides. Source:
//                deepseek-ai/DeepSeek-V3 inference/kernel.py (weight_dequant).
//   scaled int   codes I8 [rows, cols]; scales likewise; zero points I8, one beside each scale, or
//                none; weight = (code - zero) * scale. Source: compressed-tensors
//                compressors/quantized_compressors/naive_quantized.py.
//   bnb int8     codes I8 [rows, cols]; SCB F32 [rows]; weight = (code * SCB[row]) * (1/127 as
//                float32), two roundings in that order. Source: bitsandbytes
//                backends/default/ops.py (int8_vectorwise_dequant).
#pragma once

#include "decode_view.hpp"

namespace vindex::decode {

/// Calls `decode_run(col, count, index)` for each run of a row's columns that share scale `index`.
/// Divides once per row: a division per run would cost as much as decoding a group of 32.
template <typename DecodeRun>
VINDEX_HD inline void for_each_scale(const DecodeView& view, std::int64_t row,
                                     DecodeRun&& decode_run) {
  std::int64_t index = scale_index(view, row, 0);
  std::int64_t count = view.block_cols - view.first_col % view.block_cols;
  for (std::int64_t col = 0; col < view.cols; ++index) {
    count = count < view.cols - col ? count : view.cols - col;
    decode_run(col, count, index);
    col += count;
    count = view.block_cols;
  }
}

template <typename Format>
struct Float8Decoder {
  static constexpr Scheme kScheme = Scheme::kFp8Block;
  static constexpr ElementType kType = Format::kType;
  static constexpr int kBits = 0;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 1;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t* code = view.codes + row * view.row_stride_bytes + col;
    return Format::decode_one(code, 0) * load_scale(view, scale_index(view, row, col));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=, &view](std::int64_t col, std::int64_t count, std::int64_t index) {
      const float scale = load_scale(view, index);
      for (std::int64_t i = col; i < col + count; ++i) {
        out[i] = Format::decode_one(codes + i, 0) * scale;
      }
    });
  }
};

struct ScaledIntDecoder {
  static constexpr Scheme kScheme = Scheme::kScaledInt;
  static constexpr ElementType kType = ElementType::kI8;
  static constexpr int kBits = 0;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 1;

  VINDEX_HD static int zero_point(const DecodeView& view, std::int64_t index) {
    const std::uint8_t* zeros = companion(view, CompanionRole::kZeroPoint);
    return zeros == nullptr ? 0 : static_cast<std::int8_t>(zeros[index]);
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const auto code = static_cast<std::int8_t>(view.codes[row * view.row_stride_bytes + col]);
    const std::int64_t index = scale_index(view, row, col);
    return static_cast<float>(code - zero_point(view, index)) * load_scale(view, index);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=, &view](std::int64_t col, std::int64_t count, std::int64_t index) {
      const float scale = load_scale(view, index);
      const int zero = zero_point(view, index);
      for (std::int64_t i = col; i < col + count; ++i) {
        out[i] = static_cast<float>(static_cast<std::int8_t>(codes[i]) - zero) * scale;
      }
    });
  }
};

struct BnbInt8Decoder {
  static constexpr Scheme kScheme = Scheme::kBnbInt8;
  static constexpr ElementType kType = ElementType::kI8;
  static constexpr int kBits = 0;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 1;
  static constexpr float kInverse127 = 7.874015718698502e-3F;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const auto code = static_cast<std::int8_t>(view.codes[row * view.row_stride_bytes + col]);
    return static_cast<float>(code) * load_scale(view, view.first_row + row) * kInverse127;
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    const float scale = load_scale(view, view.first_row + row);
    for (std::int64_t i = 0; i < view.cols; ++i) {
      out[i] = static_cast<float>(static_cast<std::int8_t>(codes[i])) * scale * kInverse127;
    }
  }
};

}  // namespace vindex::decode
