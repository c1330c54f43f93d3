// Owns the decoders of weights whose codes are stored transposed, rows of bytes being inputs. The
// weights come out as out x in all the same.
//   GPTQ  qweight I32 [in Bits / 32, out]: the codes of output r, in the order of the inputs, are
//         the dense stream of bits down column r (3 bits: 32 codes in three words, two of them
//         straddling). qzeros I32 [groups, out Bits / 32], dense along the outputs; scales [groups,
//         out]; g_idx I32 [in], where present, names each input's group.
//         weight = (q - z) * scale; version 1 of the format stores z - 1, modulo 2^Bits. GPTQModel
//         subtracts those ones from whole words of 2, 4 and 8 bits, so that a zero point of 0
//         borrows from its neighbour, and gives them back in the same way.
//   AWQ   (gemm) qweight I32 [in, out / 8]: nibble k of word w is output 8w + {0 2 4 6 1 3 5 7}[k];
//         qzeros I32 [groups, out / 8] in the same order; scales [groups, out];
//         weight = (q - z) * scale.
// A product of float16 and an integer below 2^9 is exact. Source: AutoGPTQ / GPTQModel
// nn_modules/qlinear (dequantize_weight, pack); AutoAWQ awq/utils/packing_utils.py.
#pragma once

#include "packed_int.hpp"

#include <cstring>

namespace vindex::decode {

/// Sides of a tile on the host: a line of the cache of words, and columns whose results stay in the
/// nearest cache.
inline constexpr int kTransposedRows = 16;
inline constexpr int kTransposedCols = 256;

/// Group of scales of the view's column.
VINDEX_HD inline std::int64_t transposed_group(const DecodeView& view, std::int64_t col) {
  const std::uint8_t* indices = companion(view, CompanionRole::kGroupIndex);
  const std::int64_t whole_col = view.first_col + col;
  return indices == nullptr ? whole_col / view.block_cols
                            : load_as<std::int32_t>(indices + 4 * whole_col);
}

/// What is common to both. `Codes` has
///   kScheme, kBits, kElements
///   code(view, row, col), zero(view, row, group)      one by one
///   Tile                                              the codes of a tile, taken up once
///     load(view, first_row, rows, col, cols)
///     row(r, first, end, use)                         use(c, code) for columns [first, end) of it
template <typename Codes>
struct TransposedDecoder {
  static constexpr Scheme kScheme = Codes::kScheme;
  static constexpr ElementType kType = ElementType::kI32;
  static constexpr int kBits = Codes::kBits;
  static constexpr int kElements = Codes::kElements;
  static constexpr int kTileRows = kTransposedRows;
  static constexpr int kTileCols = kTransposedCols;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::int64_t group = transposed_group(view, col);
    return static_cast<float>(Codes::code(view, row, col) - Codes::zero(view, row, group)) *
           load_scale(view, group * view.scale_cols + view.first_row + row);
  }

  /// Scales and zero points of up to kTileRows rows, all groups, for tiles of their columns.
  class Strip {
   public:
    Strip(const DecodeView& view, std::int64_t row, int rows)
        : view_(view), row_(row), rows_(rows), in_tables_(view.scale_rows <= kGroups) {
      for (std::int64_t group = 0; in_tables_ && group < view.scale_rows; ++group) {
        float scales[kTileRows];
        load_scales(group * view.scale_cols + view.first_row + row, scales);
        for (int r = 0; r < rows; ++r) {
          scales_[r][group] = scales[r];
          zeros_[r][group] = static_cast<float>(Codes::zero(view, row + r, group));
        }
      }
    }

    /// Weights of columns [col, col + cols), cols <= kTileCols; col a multiple of kTileCols.
    void decode(std::int64_t col, int cols, float* out, std::int64_t stride) const {
      if (!in_tables_) {
        for (int r = 0; r < rows_; ++r) {
          for (int c = 0; c < cols; ++c) {
            out[r * stride + c] = at(view_, row_ + r, col + c);
          }
        }
        return;
      }
      typename Codes::Tile codes;
      codes.load(view_, row_, rows_, col, cols);
      const bool by_index = companion(view_, CompanionRole::kGroupIndex) != nullptr;
      std::int32_t groups[kTileCols];
      if (by_index) {
        std::memcpy(groups,
                    companion(view_, CompanionRole::kGroupIndex) + 4 * (view_.first_col + col),
                    4 * static_cast<std::size_t>(cols));
      }
      for (int r = 0; r < rows_; ++r) {
        if (by_index) {
          decode_by_index(codes, r, groups, cols, out + r * stride);
        } else {
          decode_in_runs(codes, r, col, cols, out + r * stride);
        }
      }
    }

   private:
    static constexpr int kGroups = 512;
    using Tile = typename Codes::Tile;

    void decode_in_runs(const Tile& codes, int r, std::int64_t col, int cols, float* out) const {
      const std::int64_t first_col = view_.first_col + col;
      std::int64_t group = first_col / view_.block_cols;
      std::int64_t run = view_.block_cols - first_col % view_.block_cols;
      for (int c = 0; c < cols; ++group, run = view_.block_cols) {
        const int end = run < cols - c ? c + static_cast<int>(run) : cols;
        const float scale = scales_[r][group];
        const float zero = zeros_[r][group];
        codes.row(r, c, end, [=](int i, std::uint32_t code) {
          out[i] = (static_cast<float>(static_cast<int>(code)) - zero) * scale;
        });
        c = end;
      }
    }

    void decode_by_index(const Tile& codes, int r, const std::int32_t* groups, int cols,
                         float* out) const {
      codes.row(r, 0, cols, [=](int i, std::uint32_t code) {
        out[i] = static_cast<float>(static_cast<int>(code));
      });
      const float* scales = scales_[r];
      const float* zeros = zeros_[r];
      for (int c = 0; c < cols; ++c) {
        out[c] = (out[c] - zeros[groups[c]]) * scales[groups[c]];
      }
    }

    void load_scales(std::int64_t index, float* out) const {
      const std::uint8_t* scales = companion(view_, CompanionRole::kScale);
      if (view_.scale_type == ElementType::kF16) {
        for (int r = 0; r < rows_; ++r) {
          out[r] = half_to_float(load_as<std::uint16_t>(scales + 2 * (index + r)));
        }
        return;
      }
      for (int r = 0; r < rows_; ++r) {
        out[r] = load_scale(view_, index + r);
      }
    }

    const DecodeView& view_;
    std::int64_t row_;
    int rows_;
    bool in_tables_;
    float scales_[kTileRows][kGroups];
    float zeros_[kTileRows][kGroups];
  };
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
    if constexpr (32 % Bits == 0) {
      if (view.zero_carries) {
        constexpr std::uint32_t kOnes = ~0U / Dense::kMask;  // a one in every code
        const std::int64_t whole_row = view.first_row + row;
        const std::uint32_t word =
            load_as<std::uint32_t>(zeros + 4 * Dense::word_of(whole_row)) + kOnes;
        return static_cast<int>((word >> Dense::shift_of(whole_row)) & Dense::kMask);
      }
    }
    const std::uint32_t stored = code_across<Dense, Bits>(zeros, 1, view.first_row + row);
    return static_cast<int>((stored + (view.zero_less_one ? 1U : 0U)) & Dense::kMask);
  }

  /// The words turned, so that a row's codes are one stream of bits.
  class Tile {
   public:
    void load(const DecodeView& view, std::int64_t row, int rows, std::int64_t col, int cols) {
      const std::uint8_t* from = view.codes + Dense::word_of(col) * view.row_stride_bytes + 4 * row;
      const int words = (cols * Bits + 31) / 32;
      for (int w = 0; w < words; ++w, from += view.row_stride_bytes) {
        for (int r = 0; r < rows; ++r) {
          words_[r][w] = load_as<std::uint32_t>(from + 4 * r);
        }
      }
    }
    template <typename Use>
    void row(int r, int first, int end, Use&& use) const {
      Dense::each(reinterpret_cast<const std::uint8_t*>(words_[r]), first, end,
                  [&](std::int64_t c, std::uint32_t code) { use(static_cast<int>(c), code); });
    }

   private:
    std::uint32_t words_[kTransposedRows][kTransposedCols * Bits / 32];
  };
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

  /// The words of eight rows each, one beside the other as the columns are.
  class Tile {
   public:
    void load(const DecodeView& view, std::int64_t row, int rows, std::int64_t col, int cols) {
      const std::int64_t whole_row = view.first_row + row;
      phase_ = static_cast<int>(whole_row % 8);
      const std::uint8_t* from = word_of(view, row, col);
      const int words = (phase_ + rows + 7) / 8;
      for (int c = 0; c < cols; ++c, from += view.row_stride_bytes) {
        for (int w = 0; w < words; ++w) {
          words_[w][c] = load_as<std::uint32_t>(from + 4 * w);
        }
      }
    }
    template <typename Use>
    void row(int r, int first, int end, Use&& use) const {
      const std::uint32_t* words = words_[(phase_ + r) / 8];
      const unsigned shift = shift_of(phase_ + r);
      for (int c = first; c < end; ++c) {
        use(c, words[c] >> shift & 15U);
      }
    }

   private:
    int phase_ = 0;
    std::uint32_t words_[kTransposedRows / 8 + 1][kTransposedCols];
  };
};

template <int Bits>
using GptqDecoder = TransposedDecoder<GptqCodes<Bits>>;
using AwqDecoder = TransposedDecoder<AwqCodes>;

}  // namespace vindex::decode
