// Owns the description of how a weight matrix is encoded (a scheme, its element types and group
// geometry) and the view EncodedMatrix that both back ends receive: bytes + encoding + shape,
// nothing decoded, nothing copied.
//
// To add a format: one header with its decoder, one line in visit_encoding.hpp, one test.
#pragma once

#include "element_type.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex::decode {

/// How codes and companions combine into a weight. Decoders (decode/*.hpp) say each layout in full.
enum class Scheme : std::uint8_t {
  kPlain,  ///< one stored tensor; its ElementType says everything (floats, integers, ggml blocks)
  /// 8-bit floats [rows, cols] times a scale per block_rows x block_cols block (edge blocks
  /// partial).
  kFp8Block,
  /// compressed-tensors pack-quantized: I32 words, `bits` per weight, offset binary, a scale per
  /// group, zero points and group indices where present.
  kPackedInt,
  kPackedIntPadded,  ///< the same, but no code straddles two words
  kScaledInt,        ///< I8 codes [rows, cols], zero points where present, a scale per block
  kBnbInt8,          ///< bitsandbytes: I8 codes, one SCB per row, 1/127
  kFp4,              ///< pairs of E2M1 codes, a scale per group, a factor where present
  kAffineInt,        ///< MLX: unsigned codes in words, a scale and a bias per group
  kGptq,             ///< codes packed along the inputs of the transposed matrix
  kAwq,              ///< codes packed along the outputs of the transposed matrix, permuted
  kLookup4,          ///< bitsandbytes nf4 and fp4: flat pairs of indices into a table
  kHqq,              ///< flat planes of codes, the first in the highest bits
  kTernary,          ///< BitNet: flat planes of two bits, the first in the lowest bits
  kFactoredBlocks,   ///< ggml blocks times one scale for the whole matrix (NVFP4 in GGUF files)
  kUnsupported,      ///< recognised and named (see `label`), not decodable
};

/// How the codes of a matrix lie in its stored bytes, which says how views are cut.
enum class CodeLayout : std::uint8_t {
  kRows,     ///< one row after the other, each in bytes of its own
  kColumns,  ///< stored transposed: a row of bytes holds (groups of) columns
  kFlat,     ///< one run over all weights; a view keeps the whole matrix's bytes
};
CodeLayout code_layout(Scheme scheme);

/// What an extra stored tensor is for.
enum class CompanionRole : std::uint8_t {
  kScale,
  kZeroPoint,    ///< or the bias of kAffineInt
  kGroupIndex,   ///< I32 per column: its group of scales
  kGlobalScale,  ///< one float32 for the whole matrix
  kShape,
  kTable,        ///< F32 [16]: the weights of kLookup4's codes
  kNestedScale,  ///< F32: scales of the scales
  kNestedTable,  ///< F32 [256]: what U8 scales stand for
  kCount
};
inline constexpr std::size_t kCompanionRoles = static_cast<std::size_t>(CompanionRole::kCount);

/// How the weights of one matrix are stored. `label` is the results file's `encoding` column:
/// "BF16", "Q4_K", "F8_E4M3/128x128", "INT4/g32".
struct Encoding {
  Scheme scheme = Scheme::kPlain;
  ElementType type = ElementType::kF32;  ///< of the codes
  std::int32_t bits = 0;                 ///< of a code, where `type` does not say it
  std::int32_t block_rows = 1;           ///< rows that share a scale
  std::int32_t block_cols = 0;           ///< columns that share a scale (group size)
  std::string label;
  /// kFp4: the factor divides the scales; kTernary: the scale divides the weights.
  bool global_divides = false;
  bool zero_less_one = false;        ///< kGptq: zero points are stored less one (version 1)
  bool zero_carries = false;         ///< the same, the one taken from whole words (GPTQModel)
  bool scale_per_plane_col = false;  ///< kHqq, axis 0: weight k has scale k mod (weights / group)
  std::int32_t nested_block = 0;     ///< kLookup4: scales that share a nested scale
  float nested_offset = 0.0F;        ///< kLookup4: added to every nested scale
  std::int64_t whole_rows = 0;       ///< kFlat: of the whole matrix
  std::int64_t whole_cols = 0;
  std::int64_t plane = 0;  ///< kHqq, kTernary: weights in a plane, that is bytes (3 bits: words)
};

/// One companion tensor, whole (scales are small): `rows x cols` elements of `type`, row-major.
struct Companion {
  CompanionRole role = CompanionRole::kScale;
  ElementType type = ElementType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::byte> bytes;
};

inline constexpr std::size_t kMaxCompanions = 5;

/// A rectangle of an encoded matrix, bytes in memory, owned by someone else.
/// Rows and columns are those of the weights as decoded (row-major; GGUF ne[0] = cols), whatever
/// the layout of the codes. Scales are indexed from the whole matrix, so a view keeps where it
/// starts. Views are cut at multiples of column_granularity(), rows anywhere.
struct EncodedMatrix {
  const Encoding* encoding = nullptr;
  std::int64_t rows = 0;  ///< of this view
  std::int64_t cols = 0;
  std::int64_t first_row = 0;  ///< position of the view in the whole matrix
  std::int64_t first_col = 0;
  const std::byte* codes = nullptr;   ///< first byte of the view's codes; any alignment
  std::int64_t row_stride_bytes = 0;  ///< between stored rows of codes; unused where kFlat
  std::array<Companion, kMaxCompanions> companions{};
  std::int32_t companion_count = 0;
  std::int64_t code_origin = 0;  ///< kFlat: number in the whole matrix of the byte at `codes`

  const Companion* companion(CompanionRole role) const;
};

/// Bytes in memory or in a file: `height` runs of `width` bytes, `stride` bytes from one to the
/// next, the first `offset` bytes after a base that the giver names.
struct CodeWindow {
  std::int64_t offset = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::int64_t stride = 0;
};

/// The bytes of `view.codes` that its weights need (offset from view.codes): what a copy must hold.
CodeWindow code_window(const EncodedMatrix& view);

/// `view` over a copy of its code_window() at `codes`, runs packed without gaps.
EncodedMatrix with_codes(const EncodedMatrix& view, const std::byte* codes);

/// A part of a matrix as a view whose `codes` is still the matrix's, and how many bytes later it
/// must point. For matrices whose codes are not in memory; row_slab() and column_slab() otherwise.
struct Cut {
  EncodedMatrix view;
  std::int64_t offset = 0;
};
Cut cut_rows(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);
Cut cut_columns(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// The view of rows [first, first + count) of `matrix`. Errors: expects() on a range outside or off
/// a block boundary.
EncodedMatrix row_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// The view of columns [first, first + count); `first` must be a multiple of column_granularity().
EncodedMatrix column_slab(const EncodedMatrix& matrix, std::int64_t first, std::int64_t count);

/// Smallest number of columns at which a row of codes may be cut (a block, or the words of a packed
/// group).
std::int64_t column_granularity(const Encoding& encoding);

/// Bytes of one row of `cols` weights; nothing where cols is no multiple of what the encoding can
/// store, or where rows have no bytes of their own (code_layout() other than kRows).
std::optional<std::uint64_t> row_bytes(const Encoding& encoding, std::uint64_t cols);

/// Bytes of the codes of a whole matrix; nothing where the encoding cannot store that shape.
std::optional<std::uint64_t> code_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols);

/// Bytes between the stored rows of a whole matrix of that shape: row_stride_bytes. 0 where kFlat.
std::optional<std::uint64_t> code_stride(const Encoding& encoding, std::uint64_t rows,
                                         std::uint64_t cols);

/// Most bytes that the code_window() of a view of rows x cols can hold, wherever it is cut.
std::optional<std::uint64_t> slab_bytes(const Encoding& encoding, std::uint64_t rows,
                                        std::uint64_t cols);

/// The encoding of a tensor stored plainly as `type`.
Encoding plain_encoding(ElementType type);
/// The same with a scale for the whole matrix beside it: the label is the type's.
Encoding factored_encoding(ElementType type);
/// fp8 E4M3 codes with block_rows x block_cols scales: label "F8_E4M3/128x128".
Encoding fp8_block_encoding(std::int32_t block_rows, std::int32_t block_cols);
/// compressed-tensors pack-quantized, symmetric: label "INT4/g32" (group 0 = one per row:
/// "INT4/channel").
Encoding packed_int_encoding(std::int32_t bits, std::int32_t group);

/// True where decode_matrix() can decode it in this build; else the reason is the row status
/// `unsupported`.
bool is_decodable(const Encoding& encoding);

/// The encoding of a tensor stored plainly as float32. It lives as long as the program.
const Encoding& float32_encoding();

/// The rows x cols floats at `values`, row-major without gaps, as a whole matrix. They must stay.
EncodedMatrix float32_view(const float* values, std::int64_t rows, std::int64_t cols);

}  // namespace vindex::decode
