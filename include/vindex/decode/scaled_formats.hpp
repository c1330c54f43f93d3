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

/// Columns from `col` on that share its scale, at most to the end of the view's row.
VINDEX_HD inline std::int64_t columns_of_one_scale(const DecodeView& view, std::int64_t col) {
  const std::int64_t left = view.block_cols - (view.first_col + col) % view.block_cols;
  return left < view.cols - col ? left : view.cols - col;
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
    for (std::int64_t col = 0; col < view.cols;) {
      const std::int64_t count = columns_of_one_scale(view, col);
      const float scale = load_scale(view, scale_index(view, row, col));
      for (std::int64_t i = 0; i < count; ++i) {
        out[col + i] = e4m3_to_float(codes[col + i]) * scale;
      }
      col += count;
    }
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
    for (std::int64_t col = 0; col < view.cols;) {
      const std::int64_t count = columns_of_one_scale(view, col);
      const float scale = load_scale(view, scale_index(view, row, col));
      std::int64_t i = 0;
      // A word at a time where the run of one scale begins at a word, as it does for every group
      // size in use.
      if (col % kElements == 0) {
        for (; i + kElements <= count; i += kElements) {
          const std::uint8_t* word = codes + (col + i) * Bits / 8;
          for (int j = 0; j < kElements; ++j) {
            out[col + i + j] = static_cast<float>(code_at(word, j)) * scale;
          }
        }
      }
      for (; i < count; ++i) {
        out[col + i] = static_cast<float>(code_at(codes, col + i)) * scale;
      }
      col += count;
    }
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
