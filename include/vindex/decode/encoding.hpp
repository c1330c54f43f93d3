// Owns the description of how a weight matrix is encoded (a scheme, its element types and group
// geometry) and the view EncodedMatrix that both back ends receive: bytes + encoding + shape,
// nothing decoded, nothing copied.
//
// To add a format: one header with its block decoder, one row in host/decode/encoding_table.cpp,
// one test.
#pragma once

#include <vindex/decode/element_type.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex::decode {

/// How codes and companions combine into a weight.
enum class Scheme : std::uint8_t {
  kPlain,  ///< one stored tensor; its ElementType says everything (floats, integers, ggml blocks)
  kFp8Block,   ///< F8_E4M3 codes [rows, cols] times a scale per block_rows x block_cols block (edge
               ///< blocks partial)
  kPackedInt,  ///< compressed-tensors pack-quantized: I32 words, `bits` per weight, offset binary,
               ///< scale per group
  kUnsupported,  ///< recognised and named (see `label`), not decodable
};

/// What an extra stored tensor is for.
enum class CompanionRole : std::uint8_t { kScale, kZeroPoint, kGroupIndex, kGlobalScale, kShape };

/// How the weights of one matrix are stored. `label` is the results file's `encoding` column:
/// "BF16", "Q4_K", "F8_E4M3/128x128", "INT4/g32".
struct Encoding {
  Scheme scheme = Scheme::kPlain;
  ElementType type = ElementType::kF32;  ///< of the codes
  std::int32_t bits = 0;                 ///< kPackedInt
  std::int32_t block_rows = 1;           ///< rows that share a scale
  std::int32_t block_cols = 0;           ///< columns that share a scale (group size)
  std::string label;
};

/// One companion tensor, whole (scales are small): `rows x cols` elements of `type`, row-major.
struct Companion {
  CompanionRole role = CompanionRole::kScale;
  ElementType type = ElementType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::byte> bytes;
};

inline constexpr std::size_t kMaxCompanions = 4;

/// A rectangle of an encoded matrix, bytes in memory, owned by someone else.
/// Orientation is the STORED one (row-major, columns contiguous; GGUF ne[0] = cols). Scales are
/// indexed from the whole matrix, so a view keeps where it starts. Views are cut at block
/// boundaries in both directions that have blocks.
struct EncodedMatrix {
  const Encoding* encoding = nullptr;
  std::int64_t rows = 0;  ///< of this view
  std::int64_t cols = 0;
  std::int64_t first_row = 0;  ///< position of the view in the whole matrix
  std::int64_t first_col = 0;
  const std::byte* codes = nullptr;   ///< first byte of the view's first row; any alignment
  std::int64_t row_stride_bytes = 0;  ///< from one row's codes to the next
  std::array<Companion, kMaxCompanions> companions{};
  std::int32_t companion_count = 0;

  const Companion* companion(CompanionRole role) const;
};

/// The view of rows [first, first + count) of `matrix`. Errors: expects() on a range outside or off
/// a block boundary.
EncodedMatrix row_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// The view of columns [first, first + count); `first` must be a multiple of column_granularity().
EncodedMatrix column_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// Smallest number of columns at which a row of codes may be cut (a block, or the words of a packed
/// group).
std::int64_t column_granularity(const Encoding& encoding);

/// Bytes of one row of `cols` weights; nothing where cols is no multiple of what the encoding can
/// store.
std::optional<std::uint64_t> row_bytes(const Encoding& encoding, std::uint64_t cols);

/// The encoding of a tensor stored plainly as `type`.
Encoding plain_encoding(ElementType type);
/// fp8 E4M3 codes with block_rows x block_cols scales: label "F8_E4M3/128x128".
Encoding fp8_block_encoding(std::int32_t block_rows, std::int32_t block_cols);
/// compressed-tensors pack-quantized, symmetric: label "INT4/g32" (group 0 = one per row:
/// "INT4/channel").
Encoding packed_int_encoding(std::int32_t bits, std::int32_t group);

/// True where decode_matrix() can decode it in this build; else the reason is the row status
/// `unsupported`.
bool is_decodable(const Encoding& encoding);

}  // namespace vindex::decode
