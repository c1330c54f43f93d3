// Owns the decoders of weights whose codes are stored transposed, rows of bytes being inputs. The
// weights come out as out x in all the same.
//   GPTQ  qweight I32 [in Bits / 32, out]: the codes of output r, in the order of the inputs, are
//         the dense stream of bits down column r (3 bits: 32 codes in three words, two of them
//         straddling). qzeros I32 [groups, out Bits / 32], dense along the outputs; scales [groups,
//         out]; g_idx I32 [in], where present, names each input's group.
//         weight = (q - z) * scale; version 1 of the format stores z - 1, modulo 2^Bits.
//   AWQ   (gemm) qweight I32 [in, out / 8]: nibble k of word w is output 8w + {0 2 4 6 1 3 5 7}[k];
//         qzeros I32 [groups, out / 8] in the same order; scales [groups, out];
//         weight = (q - z) * scale.
// A product of float16 and an integer below 2^9 is exact. Source: AutoGPTQ / GPTQModel
// nn_modules/qlinear (dequantize_weight, pack); AutoAWQ awq/utils/packing_utils.py.
#pragma once

#include <vindex/decode/packed_int.hpp>

namespace vindex::decode {

/// Group of scales of the view's column.
VINDEX_HD inline std::int64_t transposed_group(const DecodeView& view, std::int64_t col) {
  const std::uint8_t* indices = companion(view, CompanionRole::kGroupIndex);
  const std::int64_t whole_col = view.first_col + col;
  return indices == nullptr ? whole_col / view.block_cols
                            : load_as<std::int32_t>(indices + 4 * whole_col);
}

/// What is common to both. `Codes` has
///   kScheme, kBits, kElements
///   code(view, row, col), zero(view, row, group)    one by one
///   codes(view, first_row, count, col, out)          codes of `count` rows of a column, as
///   integers
template <typename Codes>
struct TransposedDecoder {
  static constexpr Scheme kScheme = Codes::kScheme;
  static constexpr ElementType kType = ElementType::kI32;
  static constexpr int kBits = Codes::kBits;
  static constexpr int kElements = Codes::kElements;
  static constexpr int kTileRows = 16;
  static constexpr int kTileCols = 64;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::int64_t group = transposed_group(view, col);
    return static_cast<float>(Codes::code(view, row, col) - Codes::zero(view, row, group)) *
           load_scale(view, group * view.scale_cols + view.first_row + row);
  }

  /// In tiles: reading along the stored rows makes vectors, and a block of columns stays in the
  /// cache while all rows pass.
  VINDEX_HD static void all(const DecodeView& view, float* out, std::int64_t stride) {
    for (std::int64_t col = 0; col < view.cols; col += kTileCols) {
      const std::int64_t left = view.cols - col;
      const int cols = static_cast<int>(left < kTileCols ? left : kTileCols);
      for (std::int64_t row = 0; row < view.rows;) {
        const auto phase = static_cast<int>((view.first_row + row) % kTileRows);
        const std::int64_t rest = view.rows - row;
        const int rows = static_cast<int>(rest < kTileRows - phase ? rest : kTileRows - phase);
        float* to = out + row * stride + col;
        if (rows == kTileRows) {
          tile(view, row, kTileRows, col, cols, to, stride);
        } else {
          tile(view, row, rows, col, cols, to, stride);
        }
        row += rows;
      }
    }
  }

 private:
  VINDEX_HD static void tile(const DecodeView& view, std::int64_t row, int rows, std::int64_t col,
                             int cols, float* out, std::int64_t stride) {
    float values[kTileCols * kTileRows];
    float scales[kTileRows];
    std::int32_t zeros[kTileRows];
    std::int64_t current = -1;
    for (int c = 0; c < cols; ++c) {
      const std::int64_t group = transposed_group(view, col + c);
      if (group != current) {
        current = group;
        load_scales(view, group * view.scale_cols + view.first_row + row, rows, scales);
        for (int r = 0; r < rows; ++r) {
          zeros[r] = Codes::zero(view, row + r, group);
        }
      }
      std::int32_t codes[kTileRows];
      Codes::codes(view, row, rows, col + c, codes);
      for (int r = 0; r < rows; ++r) {
        values[c * kTileRows + r] = static_cast<float>(codes[r] - zeros[r]) * scales[r];
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) {
        out[r * stride + c] = values[c * kTileRows + r];
      }
    }
  }

  VINDEX_HD static void load_scales(const DecodeView& view, std::int64_t index, int count,
                                    float* out) {
    const std::uint8_t* scales = companion(view, CompanionRole::kScale);
    if (view.scale_type == ElementType::kF16) {
      for (int r = 0; r < count; ++r) {
        out[r] = half_to_float(load_as<std::uint16_t>(scales + 2 * (index + r)));
      }
      return;
    }
    for (int r = 0; r < count; ++r) {
      out[r] = load_scale(view, index + r);
    }
  }
};

template <int Bits>
struct GptqCodes {
  using Dense = DenseCodes<Bits>;
  static constexpr Scheme kScheme = Scheme::kGptq;
  static constexpr int kBits = Bits;
  static constexpr int kElements = Dense::kElements;

  VINDEX_HD static int code(const DecodeView& view, std::int64_t row, std::int64_t col) {
    return static_cast<int>(
        code_across<Dense, Bits>(view.codes + 4 * row, view.row_stride_bytes / 4, col));
  }
  VINDEX_HD static int zero(const DecodeView& view, std::int64_t row, std::int64_t group) {
    const std::uint8_t* zeros =
        companion(view, CompanionRole::kZeroPoint) + 4 * group * view.zero_cols;
    const std::uint32_t stored = code_across<Dense, Bits>(zeros, 1, view.first_row + row);
    return static_cast<int>((stored + (view.zero_less_one ? 1U : 0U)) & Dense::kMask);
  }
  VINDEX_HD static void codes(const DecodeView& view, std::int64_t row, int count, std::int64_t col,
                              std::int32_t* out) {
    const std::uint8_t* words = view.codes + Dense::word_of(col) * view.row_stride_bytes + 4 * row;
    const unsigned shift = Dense::shift_of(col);
    if (shift + Bits <= 32U) {
      for (int r = 0; r < count; ++r) {
        out[r] = static_cast<std::int32_t>((load_as<std::uint32_t>(words + 4 * r) >> shift) &
                                           Dense::kMask);
      }
      return;
    }
    const std::uint8_t* next = words + view.row_stride_bytes;
    for (int r = 0; r < count; ++r) {
      const std::uint32_t bits = load_as<std::uint32_t>(words + 4 * r) >> shift |
                                 load_as<std::uint32_t>(next + 4 * r) << (32U - shift);
      out[r] = static_cast<std::int32_t>(bits & Dense::kMask);
    }
  }
};

struct AwqCodes {
  static constexpr Scheme kScheme = Scheme::kAwq;
  static constexpr int kBits = 4;
  static constexpr int kElements = 1;

  /// Bits to shift for output `row` of its word: the inverse of {0 2 4 6 1 3 5 7}, times four.
  VINDEX_HD static unsigned shift_of(std::int64_t row) {
    return static_cast<unsigned>((row % 2 * 4 + row % 8 / 2) * 4);
  }
  /// The word of the view's `row` in the stored row of `col`.
  VINDEX_HD static const std::uint8_t* word_of(const DecodeView& view, std::int64_t row,
                                               std::int64_t col) {
    const std::int64_t word = (view.first_row + row) / 8 - view.first_row / 8;
    return view.codes + col * view.row_stride_bytes + 4 * word;
  }
  VINDEX_HD static int code(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const auto word = load_as<std::uint32_t>(word_of(view, row, col));
    return static_cast<int>(word >> shift_of(view.first_row + row) & 15U);
  }
  VINDEX_HD static int zero(const DecodeView& view, std::int64_t row, std::int64_t group) {
    const std::int64_t whole_row = view.first_row + row;
    const std::uint8_t* zeros = companion(view, CompanionRole::kZeroPoint);
    const auto word = load_as<std::uint32_t>(zeros + 4 * (group * view.zero_cols + whole_row / 8));
    return static_cast<int>(word >> shift_of(whole_row) & 15U);
  }
  VINDEX_HD static void codes(const DecodeView& view, std::int64_t row, int count, std::int64_t col,
                              std::int32_t* out) {
    if (count == 16) {
      const std::uint8_t* words = word_of(view, row, col);  // a full tile begins at a whole word
      for (int w = 0; w < 2; ++w) {
        const auto word = load_as<std::uint32_t>(words + 4 * w);
        for (unsigned r = 0; r < 8; ++r) {
          const unsigned shift = (r % 2 * 4 + r / 2) * 4;
          out[8 * static_cast<unsigned>(w) + r] = static_cast<std::int32_t>(word >> shift & 15U);
        }
      }
      return;
    }
    for (int r = 0; r < count; ++r) {
      out[r] = code(view, row + r, col);
    }
  }
};

template <int Bits>
using GptqDecoder = TransposedDecoder<GptqCodes<Bits>>;
using AwqDecoder = TransposedDecoder<AwqCodes>;

}  // namespace vindex::decode
