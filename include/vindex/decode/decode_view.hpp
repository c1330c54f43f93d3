// Owns the flat, trivially copyable view of an encoded matrix that decoders read, and the decoder
// of every format that is one stored tensor. A kernel takes a DecodeView by value with its two
// pointers replaced by device addresses of copies of the same bytes; nothing else changes.
//
// A decoder is a type with
//   kScheme, kType, kBits            what it decodes
//   kElements                        weights that are stored together (a cut must fall between)
//   at(view, row, col)               weight of the view's row and column (both from 0), anywhere
//   row(view, row, out)              all view.cols weights of one row, much faster on a host
// Both give the same bits.
#pragma once

#include <vindex/decode/encoding.hpp>
#include <vindex/decode/float_formats.hpp>

#include <limits>
#include <type_traits>

namespace vindex::decode {

struct DecodeView {
  const std::uint8_t* codes = nullptr;   ///< first byte of the view's first row
  const std::uint8_t* scales = nullptr;  ///< first byte of the WHOLE matrix's scales; null if none
  std::int64_t row_stride_bytes = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t first_row = 0;  ///< of the view in the whole matrix; scales are found by these
  std::int64_t first_col = 0;
  std::int64_t block_rows = 1;  ///< weights that share a scale; never 0 here: "all" is the maximum
  std::int64_t block_cols = std::numeric_limits<std::int64_t>::max();
  std::int64_t scale_cols = 0;  ///< scales per row of scales
  ElementType scale_type = ElementType::kF32;
};
static_assert(std::is_trivially_copyable_v<DecodeView>);

/// The flat view of `matrix`. Errors: expects() where a companion is missing or too small for the
/// view, or the encoding is not decodable (is_decodable()).
DecodeView decode_view(const EncodedMatrix& matrix);

/// True for the types load_scale() knows.
constexpr bool is_scale_type(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF8E8M0 || type == ElementType::kU8;
}

/// Scale number `index` of the whole matrix. U8 scales are E8M0 codes under another name
/// (compressed-tensors mx formats).
VINDEX_HD inline float load_scale(const DecodeView& view, std::int64_t index) {
  switch (view.scale_type) {
    case ElementType::kF32:
      return load_as<float>(view.scales + 4 * index);
    case ElementType::kBF16:
      return bfloat16_to_float(load_as<std::uint16_t>(view.scales + 2 * index));
    case ElementType::kF16:
      return half_to_float(load_as<std::uint16_t>(view.scales + 2 * index));
    default:
      return e8m0_to_float(view.scales[index]);
  }
}

/// Index of the scale of the view's weight (row, col).
VINDEX_HD inline std::int64_t scale_index(const DecodeView& view, std::int64_t row,
                                          std::int64_t col) {
  return (view.first_row + row) / view.block_rows * view.scale_cols +
         (view.first_col + col) / view.block_cols;
}

/// Decoder of one stored tensor of `Format` blocks (float_formats.hpp, *_blocks.hpp).
template <typename Format>
struct PlainDecoder {
  static constexpr Scheme kScheme = Scheme::kPlain;
  static constexpr ElementType kType = Format::kType;
  static constexpr int kBits = 0;
  static constexpr int kElements = Format::kElements;
  static constexpr int kBytes = Format::kBytes;  ///< of kElements weights

  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t* block =
        view.codes + row * view.row_stride_bytes + col / kElements * Format::kBytes;
    return Format::decode_one(block, static_cast<int>(col % kElements));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    const std::int64_t blocks = view.cols / kElements;
    for (std::int64_t block = 0; block < blocks; ++block) {
      Format::decode_all(codes + block * Format::kBytes, out + block * kElements);
    }
  }
};

}  // namespace vindex::decode
