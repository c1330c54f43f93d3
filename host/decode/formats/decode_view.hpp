// Owns the flat, trivially copyable view of an encoded matrix that decoders read, and the decoder
// of every format that is one stored tensor. A kernel takes a DecodeView by value with its pointers
// replaced by device addresses of copies of the same bytes; nothing else changes.
//
// A decoder is a type with
//   kScheme, kType, kBits            what it decodes
//   kElements, kBytes                weights that are stored together (a cut must fall between),
//                                    and the bytes of them; 0 bytes where a row does not begin by
//                                    itself
//   at(view, row, col)               weight of the view's row and column (both from 0), anywhere
//   row(view, row, out)              all view.cols weights of one row, much faster on a host
//   Strip, kTileRows, kTileCols      instead of row(), where codes lie transposed: what rows share,
//                                    and decode(col, cols, out, stride) of a tile of them
// All give the same bits.
#pragma once

#include "float_formats.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"

#include <limits>
#include <type_traits>

namespace vindex::decode {

struct DecodeView {
  const std::uint8_t* codes = nullptr;  ///< first byte of the view's codes
  /// First bytes of the WHOLE matrix's companions, by role; null where there is none.
  const std::uint8_t* companions[kCompanionRoles] = {};
  std::int64_t row_stride_bytes = 0;
  std::int64_t code_origin = 0;  ///< CodeLayout::kFlat: number in the matrix of the byte at `codes`
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t first_row = 0;  ///< of the view in the whole matrix; scales are found by these
  std::int64_t first_col = 0;
  std::int64_t whole_rows = 0;  ///< CodeLayout::kFlat only
  std::int64_t whole_cols = 0;
  std::int64_t plane = 0;
  std::int64_t block_rows = 1;  ///< weights that share a scale; never 0 here: "all" is the maximum
  std::int64_t block_cols = std::numeric_limits<std::int64_t>::max();
  std::int64_t scale_cols = 0;  ///< scales per row of scales
  std::int64_t scale_rows = 0;
  std::int64_t zero_cols = 0;  ///< stored elements per row of zero points
  std::int64_t nested_block = 1;
  float nested_offset = 0.0F;
  ElementType scale_type = ElementType::kF32;
  ElementType zero_type = ElementType::kF32;
  bool global_divides = false;
  bool zero_less_one = false;
  bool zero_carries = false;
  bool scale_per_plane_col = false;
};
static_assert(std::is_trivially_copyable_v<DecodeView>);

VINDEX_HD constexpr std::size_t role_index(CompanionRole role) {
  return static_cast<std::size_t>(role);
}

/// The whole companion `role` of the view, or null.
VINDEX_HD inline const std::uint8_t* companion(const DecodeView& view, CompanionRole role) {
  return view.companions[role_index(role)];
}

/// True for the types load_scale() knows.
constexpr bool is_scale_type(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kF16 || type == ElementType::kBF16 ||
         type == ElementType::kF8E8M0 || type == ElementType::kU8 || type == ElementType::kF8E4M3;
}

/// Number `index` of the numbers of `type` at `bytes`. U8 are E8M0 codes under another name
/// (compressed-tensors mx formats).
VINDEX_HD inline float load_number(const std::uint8_t* bytes, ElementType type,
                                   std::int64_t index) {
  switch (type) {
    case ElementType::kF32:
      return load_as<float>(bytes + 4 * index);
    case ElementType::kBF16:
      return bfloat16_to_float(load_as<std::uint16_t>(bytes + 2 * index));
    case ElementType::kF16:
      return half_to_float(load_as<std::uint16_t>(bytes + 2 * index));
    case ElementType::kF8E4M3:
      return e4m3_to_float(bytes[index]);
    default:
      return e8m0_to_float(bytes[index]);
  }
}

/// Scale number `index` of the whole matrix.
VINDEX_HD inline float load_scale(const DecodeView& view, std::int64_t index) {
  return load_number(companion(view, CompanionRole::kScale), view.scale_type, index);
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
  static constexpr int kBytes = Format::kBytes;

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
