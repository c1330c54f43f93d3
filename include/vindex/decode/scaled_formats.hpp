// Owns the decoders of weights that are codes in one tensor times scales in another.
//   fp8 block   codes F8_E4M3 [rows, cols]; scales [ceil(rows/block_rows), ceil(cols/block_cols)];
//               weight = code * scale, one float32 product; edge blocks are partial, nothing
//               padded. "weight_scale_inv" multiplies too. Source: deepseek-ai/DeepSeek-V3
//               inference/kernel.py (weight_dequant).
//   packed int  codes I32 words [rows, ceil(cols bits / 32)], little-endian, least significant bits
//               first: with 4 bits byte c/2 holds column c in its low nibble when c is even, with 8
//               bits byte c is column c. Offset binary: q = u - 2^(bits-1). weight = q * scale, a
//               scale per row and group of columns [rows, ceil(cols/group)]. Source:
//               compressed-tensors compressors/quantized_compressors/pack_quantized.py.
#pragma once

#include <vindex/decode/decode_view.hpp>

namespace vindex::decode {

/// Calls `decode_run(col, count, scale)` for each run of a row's columns that share a scale.
/// Divides once per row: a division per run would cost as much as decoding a group of 32.
template <typename DecodeRun>
VINDEX_HD inline void for_each_scale(const DecodeView& view, std::int64_t row,
                                     DecodeRun&& decode_run) {
  std::int64_t index = scale_index(view, row, 0);
  std::int64_t count = view.block_cols - view.first_col % view.block_cols;
  for (std::int64_t col = 0; col < view.cols; ++index) {
    count = count < view.cols - col ? count : view.cols - col;
    decode_run(col, count, load_scale(view, index));
    col += count;
    count = view.block_cols;
  }
}

struct Fp8BlockDecoder {
  static constexpr Scheme kScheme = Scheme::kFp8Block;
  static constexpr ElementType kType = ElementType::kF8E4M3;
  static constexpr int kBits = 0;
  static constexpr int kElements = 1;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t code = view.codes[row * view.row_stride_bytes + col];
    return e4m3_to_float(code) * load_scale(view, scale_index(view, row, col));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=](std::int64_t col, std::int64_t count, float scale) {
      for (std::int64_t i = col; i < col + count; ++i) {
        out[i] = e4m3_to_float(codes[i]) * scale;
      }
    });
  }
};

template <int Bits>
struct PackedIntDecoder {
  static_assert(Bits == 4 || Bits == 8, "other widths straddle bytes");
  static constexpr Scheme kScheme = Scheme::kPackedInt;
  static constexpr ElementType kType = ElementType::kI32;
  static constexpr int kBits = Bits;
  static constexpr int kElements = 32 / Bits;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    return static_cast<float>(code_at(codes, col)) * load_scale(view, scale_index(view, row, col));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=](std::int64_t col, std::int64_t count, float scale) {
      std::int64_t i = col;
      // A word at a time where the run begins at a word, as it does for every group size in use.
      if (Bits == 4 && col % 8 == 0) {
        for (; i + 8 <= col + count; i += 8) {
          const auto word = load_as<std::uint32_t>(codes + i / 2);
          for (int j = 0; j < 8; ++j) {
            const auto code = static_cast<int>((word >> static_cast<unsigned>(4 * j)) & 15U);
            out[i + j] = static_cast<float>(code - 8) * scale;
          }
        }
      }
      for (; i < col + count; ++i) {
        out[i] = static_cast<float>(code_at(codes, i)) * scale;
      }
    });
  }

 private:
  VINDEX_HD static int code_at(const std::uint8_t* codes, std::int64_t col) {
    if constexpr (Bits == 8) {
      return static_cast<int>(codes[col]) - 128;
    } else {
      return ((codes[col / 2] >> (col % 2 * 4)) & 15) - 8;
    }
  }
};

}  // namespace vindex::decode
