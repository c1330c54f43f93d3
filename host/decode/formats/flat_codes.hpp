// Owns the decoders of weights whose codes run on over the whole matrix, rows or not. Weight k of
// the matrix is its weight (k / cols, k mod cols).
//   lookup   bitsandbytes nf4 and fp4: byte k / 2, the HIGH nibble for even k; quant_map F32 [16];
//            absmax F32, one per `block_cols` weights, or nested: U8 codes a with nested_quant_map
//            F32 [256], nested_absmax F32, one per `nested_block` of them, and an offset, absmax =
//            nested_quant_map[a] * nested_absmax + offset, each operation rounded.
//            weight = quant_map[code] * absmax. Source: bitsandbytes functional.py
//            (dequantize_4bit), backends/default/ops.py.
//   HQQ      Bits-bit codes in planes, the first of them in the highest bits: code k is in unit k
//            mod plane, plane k / plane. Units are bytes; with 3 bits words of ten codes, bits
//            29-27 first. (The package packs rows of a reshaped matrix; whole rows are whole runs
//            of k.) Scale and zero of weight k: k / group (axis 1), or k mod (weights / group)
//            (axis 0). weight = (code - zero) * scale, both rounded. Source: mobiusml/hqq
//            core/bitpack.py, core/quantize.py.
//   ternary  BitNet: two-bit codes in four planes, the first in the lowest bits, a plane being a
//            quarter of the rows; weight = (code - 1) / scale, one scale, or (code - 1) * scale.
//            Source: transformers integrations/bitnet.py (unpack_weights; BitLinear divides its
//            products by the scale, AutoBitLinear multiplies them).
#pragma once

#include "decode_view.hpp"

namespace vindex::decode {

/// Number in the matrix of the view's weight (row, col).
VINDEX_HD inline std::int64_t flat_index(const DecodeView& view, std::int64_t row,
                                         std::int64_t col) {
  return (view.first_row + row) * view.whole_cols + view.first_col + col;
}

struct Lookup4Decoder {
  static constexpr Scheme kScheme = Scheme::kLookup4;
  static constexpr ElementType kType = ElementType::kU8;
  static constexpr int kBits = 4;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 0;

  VINDEX_HD static float absmax(const DecodeView& view, std::int64_t index) {
    const std::uint8_t* scales = companion(view, CompanionRole::kScale);
    const std::uint8_t* nested = companion(view, CompanionRole::kNestedScale);
    if (nested == nullptr) {
      return load_as<float>(scales + 4 * index);
    }
    const std::uint8_t* table = companion(view, CompanionRole::kNestedTable);
    const float product = load_as<float>(table + 4 * std::int64_t{scales[index]}) *
                          load_as<float>(nested + 4 * (index / view.nested_block));
    return product + view.nested_offset;
  }
  VINDEX_HD static int code(const DecodeView& view, std::int64_t k) {
    return view.codes[k / 2 - view.code_origin] >> (k % 2 == 0 ? 4 : 0) & 15;
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::int64_t k = flat_index(view, row, col);
    const std::uint8_t* table = companion(view, CompanionRole::kTable);
    return load_as<float>(table + 4 * code(view, k)) * absmax(view, k / view.block_cols);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* table = companion(view, CompanionRole::kTable);
    const std::int64_t first = flat_index(view, row, 0);
    std::int64_t index = first / view.block_cols;
    std::int64_t count = view.block_cols - first % view.block_cols;
    for (std::int64_t col = 0; col < view.cols; ++index) {
      count = count < view.cols - col ? count : view.cols - col;
      // All sixteen products of the block at once: fewer than its weights.
      const float scale = absmax(view, index);
      float weights[16];
      for (int i = 0; i < 16; ++i) {
        weights[i] = load_as<float>(table + 4 * i) * scale;
      }
      std::int64_t i = col;
      const std::int64_t end = col + count;
      if ((first + i) % 2 != 0) {
        out[i] = weights[code(view, first + i)];
        ++i;
      }
      const std::uint8_t* bytes = view.codes + (first + i) / 2 - view.code_origin;
      for (; i + 2 <= end; i += 2, ++bytes) {
        out[i] = weights[*bytes >> 4];
        out[i + 1] = weights[*bytes & 15];
      }
      if (i < end) {
        out[i] = weights[code(view, first + i)];
      }
      col = end;
      count = view.block_cols;
    }
  }
};

/// Codes in planes. Unit: what holds one code of every plane. The first plane is in the highest
/// bits where HighFirst.
template <int Bits, typename Unit, int Planes, bool HighFirst>
struct PlaneCodes {
  VINDEX_HD static unsigned shift_of(std::int64_t plane) {
    return static_cast<unsigned>(Bits * (HighFirst ? Planes - 1 - plane : plane));
  }
  /// Unit of weight k, from the view's bytes.
  VINDEX_HD static const std::uint8_t* unit(const DecodeView& view, std::int64_t position) {
    return view.codes + position * static_cast<std::int64_t>(sizeof(Unit)) - view.code_origin;
  }
  VINDEX_HD static int code(const std::uint8_t* unit, unsigned shift) {
    constexpr std::uint32_t kMask = (1U << static_cast<unsigned>(Bits)) - 1U;
    return static_cast<int>(static_cast<std::uint32_t>(load_as<Unit>(unit)) >> shift & kMask);
  }
};

template <int Bits>
struct HqqDecoder {
  static constexpr bool kWords = Bits == 3;
  static constexpr int kPlanes = kWords ? 10 : 8 / Bits;
  using Unit = std::conditional_t<kWords, std::uint32_t, std::uint8_t>;
  using Codes = PlaneCodes<Bits, Unit, kPlanes, true>;
  static constexpr Scheme kScheme = Scheme::kHqq;
  static constexpr ElementType kType = kWords ? ElementType::kI32 : ElementType::kU8;
  static constexpr int kBits = Bits;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 0;

  VINDEX_HD static float zero(const DecodeView& view, std::int64_t index) {
    return load_number(companion(view, CompanionRole::kZeroPoint), view.zero_type, index);
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::int64_t k = flat_index(view, row, col);
    const int code =
        Codes::code(Codes::unit(view, k % view.plane), Codes::shift_of(k / view.plane));
    const std::int64_t index =
        view.scale_per_plane_col ? k % (view.scale_rows * view.scale_cols) : k / view.block_cols;
    return (static_cast<float>(code) - zero(view, index)) * load_scale(view, index);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::int64_t first = flat_index(view, row, 0);
    const std::int64_t scales = view.scale_rows * view.scale_cols;
    const std::int64_t block = view.scale_per_plane_col ? scales : view.block_cols;
    for (std::int64_t col = 0; col < view.cols;) {
      // A run within one plane, and one group (or one pass over all groups).
      const std::int64_t k = first + col;
      std::int64_t count = view.cols - col;
      const std::int64_t in_plane = view.plane - k % view.plane;
      const std::int64_t in_block = block - k % block;
      count = count < in_plane ? count : in_plane;
      count = count < in_block ? count : in_block;
      const std::uint8_t* units = Codes::unit(view, k % view.plane);
      const unsigned shift = Codes::shift_of(k / view.plane);
      float* to = out + col;
      if (view.scale_per_plane_col) {
        run_of_columns(view, units, shift, k % scales, count, to);
      } else {
        const float scale = load_scale(view, k / block);
        const float offset = zero(view, k / block);
        for (std::int64_t i = 0; i < count; ++i) {
          const int code = Codes::code(units + i * std::int64_t{sizeof(Unit)}, shift);
          to[i] = (static_cast<float>(code) - offset) * scale;
        }
      }
      col += count;
    }
  }

 private:
  VINDEX_HD static void run_of_columns(const DecodeView& view, const std::uint8_t* units,
                                       unsigned shift, std::int64_t index, std::int64_t count,
                                       float* out) {
    const bool halves = view.scale_type == ElementType::kF16 && view.zero_type == ElementType::kF16;
    const std::uint8_t* scales = companion(view, CompanionRole::kScale) + 2 * index;
    const std::uint8_t* zeros = companion(view, CompanionRole::kZeroPoint) + 2 * index;
    if (halves) {
      for (std::int64_t i = 0; i < count; ++i) {
        const int code = Codes::code(units + i * std::int64_t{sizeof(Unit)}, shift);
        out[i] = (static_cast<float>(code) - half_to_float(load_as<std::uint16_t>(zeros + 2 * i))) *
                 half_to_float(load_as<std::uint16_t>(scales + 2 * i));
      }
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const int code = Codes::code(units + i * std::int64_t{sizeof(Unit)}, shift);
      out[i] = (static_cast<float>(code) - zero(view, index + i)) * load_scale(view, index + i);
    }
  }
};

struct TernaryDecoder {
  using Codes = PlaneCodes<2, std::uint8_t, 4, false>;
  static constexpr Scheme kScheme = Scheme::kTernary;
  static constexpr ElementType kType = ElementType::kU8;
  static constexpr int kBits = 2;
  static constexpr int kElements = 1;
  static constexpr int kBytes = 0;

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::int64_t k = flat_index(view, row, col);
    const int code =
        Codes::code(Codes::unit(view, k % view.plane), Codes::shift_of(k / view.plane));
    return weight(view, code, load_scale(view, 0));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const float scale = load_scale(view, 0);
    const std::int64_t first = flat_index(view, row, 0);
    for (std::int64_t col = 0; col < view.cols;) {
      const std::int64_t k = first + col;
      const std::int64_t in_plane = view.plane - k % view.plane;
      const std::int64_t count = view.cols - col < in_plane ? view.cols - col : in_plane;
      const std::uint8_t* units = Codes::unit(view, k % view.plane);
      const unsigned shift = Codes::shift_of(k / view.plane);
      for (std::int64_t i = 0; i < count; ++i) {
        out[col + i] = weight(view, Codes::code(units + i, shift), scale);
      }
      col += count;
    }
  }

 private:
  VINDEX_HD static float weight(const DecodeView& view, int code, float scale) {
    const auto value = static_cast<float>(code - 1);
    return view.global_divides ? value / scale : value * scale;
  }
};

}  // namespace vindex::decode
