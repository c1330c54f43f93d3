// Owns the description of how a weight matrix is encoded: a scheme, its element types and group
// geometry.
//
// To add a format: one header with its decoder, one line in formats/visit_encoding.hpp, one test.
#pragma once

#include "element_type.hpp"

#include <cstdint>
#include <string>

namespace vindex::decode {

/// How codes and companions combine into a weight. Decoders (decode/formats) say each layout in
/// full.
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

/// The encoding of a tensor stored plainly as `type`.
Encoding plain_encoding(ElementType type);
/// The same with a scale for the whole matrix beside it: the label is the type's.
Encoding factored_encoding(ElementType type);
/// fp8 E4M3 codes with block_rows x block_cols scales: label "F8_E4M3/128x128".
Encoding fp8_block_encoding(std::int32_t block_rows, std::int32_t block_cols);
/// compressed-tensors pack-quantized, symmetric: label "INT4/g32" (group 0 = one per row:
/// "INT4/channel").
Encoding packed_int_encoding(std::int32_t bits, std::int32_t group);

/// The encoding of a tensor stored plainly as float32. It lives as long as the program.
const Encoding& float32_encoding();

}  // namespace vindex::decode
