// Owns the way from float32 weights to encoded bytes, for writers: synthetic models, organ tools.
// Each encoder is the inverse of decode_matrix() up to rounding to the nearest code: the nearest
// under the scale (and minimum) as it is stored, not as it was before its own rounding.
//   F64, F32         as they are
//   BF16, F16        round to nearest, ties to even
//   F8_E4M3 blocks   scale = largest magnitude / 448 (F32), code nearest to weight / scale, ties to
//                    even; DeepSeek-V3 inference/kernel.py, weight_block_size [128, 128]
//   INT4 groups      scale = largest magnitude / 7 as BF16, code -7..7 nearest to weight / scale;
//                    compressed-tensors pack-quantized (offset binary, 8 per word, low first)
//   Q4_0 Q4_1 Q5_0 Q5_1 Q8_0   scales of ggml's reference quantisers, ggml src/ggml-quants.c,
//                    quantize_row_*_ref (host/decode/encode/encode_blocks.cpp); ggml's codes are
//                    for the unrounded scale, so some of ours are others, each nearer to its weight
#pragma once
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoding.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace vindex::decode {

/// `value` as bfloat16 bits, nearest, ties to even. NaN stays NaN; overflow becomes infinity.
std::uint16_t encode_bf16(float value);

/// `value` as IEEE half bits, nearest, ties to even. NaN stays NaN; overflow becomes infinity.
std::uint16_t encode_f16(float value);

/// `value` as an E4M3 (fn) code, nearest, ties to even; beyond 448 the largest code, NaN as 0x7F.
std::uint8_t encode_e4m3(float value);

/// What an encoding cost. Sums are mergeable by addition.
struct EncodingLoss {
  double squared_norm = 0.0;   ///< sum of w^2 before encoding; not finite if some w is not
  double squared_error = 0.0;  ///< sum of (decoded - w)^2
  /// Widest gap between neighbouring values near any weight: no weight moved by more than half of
  /// it (plus the rounding of its scale).
  double largest_step = 0.0;
  void add(const EncodingLoss& other);
  /// norm_F(decoded - W) / norm_F(W), 0 for a zero matrix.
  double relative_error() const;
};

/// Bytes of a rows x cols matrix in `encoding`: codes, and the scale companion beside them (0 if
/// none).
struct EncodedSize {
  std::uint64_t code_bytes = 0;
  std::uint64_t scale_bytes = 0;
};

/// True for plain F64, F32, BF16, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; fp8 blocks; symmetric 4-bit
/// packed integers with a group.
bool is_encodable(const Encoding& encoding);

/// Sizes, or nothing where `encoding` is not encodable, cannot store rows of `cols` weights (cols
/// must fill whole blocks or groups), or on overflow.
std::optional<EncodedSize> encoded_size(const Encoding& encoding, std::int64_t rows,
                                        std::int64_t cols);

/// Encodes rows x cols finite weights, row-major with `stride` >= cols floats between rows, to
/// `codes` and `scales`, whose sizes are encoded_size()'s. Codes are row-major without gaps; scales
/// are F32 [ceil(rows/block_rows), ceil(cols/block_cols)] for fp8, BF16 [rows, cols/group] for
/// packed integers. The bytes are the same on every machine.
/// Threads   pure. Errors: expects() on sizes that do not fit or an encoding not encodable. Weights
/// that are not finite give codes without meaning and a squared_norm that is not finite.
EncodingLoss encode_matrix(const Encoding& encoding, const float* values, std::int64_t rows,
                           std::int64_t cols, std::int64_t stride, std::span<std::byte> codes,
                           std::span<std::byte> scales);

}  // namespace vindex::decode
