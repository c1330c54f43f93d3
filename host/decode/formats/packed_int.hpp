// Owns the decoders of integers packed into 32-bit words along the rows, least significant bits
// first, words little-endian. Two packings:
//   dense    the codes of a row are one stream of bits: code c is bits [c Bits, (c + 1) Bits)
//   padded   floor(32 / Bits) codes to a word, the rest of its bits unused; only where they differ
//            (3, 5, 6, 7 bits), as older compressed-tensors and llama.cpp have it
// and two meanings:
//   packed int   I32 words; offset binary: q = u - 2^(Bits-1); weight = (q - zero) * scale, a scale
//                per row and group of columns [rows, ceil(cols / group)]; zero points I32, packed
//                alike but along the rows [words, groups], with the same offset, so that q - zero =
//                u - u_zero; or one scale for the whole matrix; group indices I32 [cols], where
//                present, name each column's group (all of them negative: none does). Source:
//                compressed-tensors compressors/pack_quantized, quantization/lifecycle/forward.py.
//                Its result in the scale's type is this one rounded.
//   affine       U32 words, always dense; weight = u * scale + bias, both per row and group. The
//                product is exact, so the sum is the only rounding. Source: ml-explore/mlx
//                mlx/ops.cpp (affine_dequantize).
#pragma once

#include "decode_view.hpp"
#include "scaled_formats.hpp"

namespace vindex::decode {

/// Where code `index` lies, in words and bits, and the codes of a row.
template <int Bits>
struct DenseCodes {
  static_assert(Bits >= 1 && Bits <= 8);
  static constexpr int kElements = 32 % Bits == 0 ? 32 / Bits : 32;
  static constexpr int kBytes = kElements * Bits / 8;
  static constexpr std::uint32_t kMask = (1U << static_cast<unsigned>(Bits)) - 1U;

  VINDEX_HD static std::int64_t word_of(std::int64_t index) { return index * Bits / 32; }
  VINDEX_HD static unsigned shift_of(std::int64_t index) {
    return static_cast<unsigned>(index * Bits % 32);
  }
  VINDEX_HD static std::uint32_t at(const std::uint8_t* row, std::int64_t col) {
    const std::int64_t bit = col * Bits;
    std::uint32_t bits = row[bit / 8];
    if (8 % Bits != 0 && bit % 8 + Bits > 8) {
      bits |= static_cast<std::uint32_t>(row[bit / 8 + 1]) << 8U;
    }
    return (bits >> static_cast<unsigned>(bit % 8)) & kMask;
  }
  /// Calls use(col, code) for the columns of [first, end) in order, in units of 32 columns where
  /// they are whole: these are a whole number of words.
  template <typename Use>
  VINDEX_HD static void each(const std::uint8_t* row, std::int64_t first, std::int64_t end,
                             Use&& use) {
    std::int64_t col = first;
    for (; col < end && col % 32 != 0; ++col) {
      use(col, at(row, col));
    }
    using Word = std::conditional_t<Bits <= 4, std::uint32_t, std::uint64_t>;
    constexpr int kLastWord = 4 * Bits - static_cast<int>(sizeof(Word));
    for (; col + 32 <= end; col += 32) {
      const std::uint8_t* bytes = row + col / 8 * Bits;
      for (int part = 0; part < 4; ++part) {
        // Eight codes from one load, which for the last ones begins earlier than they do.
        const int byte = part * Bits < kLastWord ? part * Bits : kLastWord;
        const Word bits =
            load_as<Word>(bytes + byte) >> static_cast<unsigned>(8 * (part * Bits - byte));
        for (int j = 0; j < 8; ++j) {
          use(col + 8 * part + j,
              static_cast<std::uint32_t>(bits >> static_cast<unsigned>(Bits * j)) & kMask);
        }
      }
    }
    for (; col < end; ++col) {
      use(col, at(row, col));
    }
  }
};

template <int Bits>
struct PaddedCodes {
  static constexpr int kElements = 32 / Bits;
  static constexpr int kBytes = 4;
  static constexpr std::uint32_t kMask = (1U << static_cast<unsigned>(Bits)) - 1U;

  VINDEX_HD static std::int64_t word_of(std::int64_t index) { return index / kElements; }
  VINDEX_HD static unsigned shift_of(std::int64_t index) {
    return static_cast<unsigned>(index % kElements * Bits);
  }
  VINDEX_HD static std::uint32_t at(const std::uint8_t* row, std::int64_t col) {
    return (load_as<std::uint32_t>(row + 4 * word_of(col)) >> shift_of(col)) & kMask;
  }
  template <typename Use>
  VINDEX_HD static void each(const std::uint8_t* row, std::int64_t first, std::int64_t end,
                             Use&& use) {
    std::int64_t col = first;
    for (; col < end && col % kElements != 0; ++col) {
      use(col, at(row, col));
    }
    for (; col + kElements <= end; col += kElements) {
      const auto bits = load_as<std::uint32_t>(row + 4 * word_of(col));
      for (int j = 0; j < kElements; ++j) {
        use(col + j, (bits >> static_cast<unsigned>(Bits * j)) & kMask);
      }
    }
    for (; col < end; ++col) {
      use(col, at(row, col));
    }
  }
};

/// Code `index` of a stream of words that lie `stride` words apart: zero points.
template <typename Codes, int Bits>
VINDEX_HD inline std::uint32_t code_across(const std::uint8_t* words, std::int64_t stride,
                                           std::int64_t index) {
  const std::uint8_t* word = words + 4 * stride * Codes::word_of(index);
  const unsigned shift = Codes::shift_of(index);
  std::uint32_t bits = load_as<std::uint32_t>(word) >> shift;
  if (shift + Bits > 32U) {
    bits |= load_as<std::uint32_t>(word + 4 * stride) << (32U - shift);
  }
  return bits & Codes::kMask;
}

template <Scheme Which, int Bits, typename Codes>
struct PackedIntDecoderOf {
  static constexpr Scheme kScheme = Which;
  static constexpr ElementType kType = ElementType::kI32;
  static constexpr int kBits = Bits;
  static constexpr int kElements = Codes::kElements;
  static constexpr int kBytes = Codes::kBytes;
  static constexpr int kOffset = 1 << (Bits - 1);
  static constexpr std::int64_t kTable = 1024;  ///< groups of a row that fit the stack

  /// What is subtracted from the codes of the view's row and group `group`.
  VINDEX_HD static int zero_point(const DecodeView& view, std::int64_t row, std::int64_t group) {
    const std::uint8_t* zeros = companion(view, CompanionRole::kZeroPoint);
    return zeros == nullptr ? kOffset
                            : static_cast<int>(code_across<Codes, Bits>(
                                  zeros + 4 * group, view.zero_cols, view.first_row + row));
  }
  VINDEX_HD static std::int64_t group_of(const DecodeView& view, std::int64_t col) {
    const std::uint8_t* indices = companion(view, CompanionRole::kGroupIndex);
    const std::int64_t whole_col = view.first_col + col;
    const std::int32_t index =
        indices == nullptr ? -1 : load_as<std::int32_t>(indices + 4 * whole_col);
    return index < 0 ? whole_col / view.block_cols : index;
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    const std::int64_t group = group_of(view, col);
    return static_cast<float>(static_cast<int>(Codes::at(codes, col)) -
                              zero_point(view, row, group)) *
           load_scale(view, first_scale(view, row) + group);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    if (companion(view, CompanionRole::kGroupIndex) != nullptr) {
      row_by_index(view, row, codes, out);
      return;
    }
    const std::int64_t first = first_scale(view, row);
    for_each_scale(view, row, [=, &view](std::int64_t col, std::int64_t count, std::int64_t index) {
      const float scale = load_scale(view, index);
      const int zero = zero_point(view, row, index - first);
      Codes::each(codes, col, col + count, [=](std::int64_t i, std::uint32_t code) {
        out[i] = static_cast<float>(static_cast<int>(code) - zero) * scale;
      });
    });
  }

 private:
  /// Index of the first scale of the view's row; all rows share one where block_rows says so.
  VINDEX_HD static std::int64_t first_scale(const DecodeView& view, std::int64_t row) {
    return (view.first_row + row) / view.block_rows * view.scale_cols;
  }
  /// Columns of a group lie anywhere: its scale and zero point are looked up column by column.
  VINDEX_HD static void row_by_index(const DecodeView& view, std::int64_t row,
                                     const std::uint8_t* codes, float* out) {
    if (view.scale_cols > kTable) {
      for (std::int64_t col = 0; col < view.cols; ++col) {
        out[col] = at(view, row, col);
      }
      return;
    }
    float scales[kTable];
    float zeros[kTable];
    const std::int64_t first = first_scale(view, row);
    for (std::int64_t group = 0; group < view.scale_cols; ++group) {
      scales[group] = load_scale(view, first + group);
      zeros[group] = static_cast<float>(zero_point(view, row, group));
    }
    Codes::each(codes, 0, view.cols, [=](std::int64_t i, std::uint32_t code) {
      out[i] = static_cast<float>(static_cast<int>(code));
    });
    for (std::int64_t col = 0; col < view.cols; ++col) {
      const std::int64_t group = group_of(view, col);
      out[col] = (out[col] - zeros[group]) * scales[group];
    }
  }
};

template <int Bits>
using PackedIntDecoder = PackedIntDecoderOf<Scheme::kPackedInt, Bits, DenseCodes<Bits>>;
template <int Bits>
using PaddedIntDecoder = PackedIntDecoderOf<Scheme::kPackedIntPadded, Bits, PaddedCodes<Bits>>;

template <int Bits>
struct AffineIntDecoder {
  using Codes = DenseCodes<Bits>;
  static constexpr Scheme kScheme = Scheme::kAffineInt;
  static constexpr ElementType kType = ElementType::kU32;
  static constexpr int kBits = Bits;
  static constexpr int kElements = Codes::kElements;
  static constexpr int kBytes = Codes::kBytes;

  VINDEX_HD static float bias(const DecodeView& view, std::int64_t index) {
    return load_number(companion(view, CompanionRole::kZeroPoint), view.zero_type, index);
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    const std::int64_t index = scale_index(view, row, col);
    const auto code = static_cast<int>(Codes::at(codes, col));
    return static_cast<float>(code) * load_scale(view, index) + bias(view, index);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=, &view](std::int64_t col, std::int64_t count, std::int64_t index) {
      const float scale = load_scale(view, index);
      const float sum = bias(view, index);
      Codes::each(codes, col, col + count, [=](std::int64_t i, std::uint32_t code) {
        out[i] = static_cast<float>(static_cast<int>(code)) * scale + sum;
      });
    });
  }
};

}  // namespace vindex::decode
