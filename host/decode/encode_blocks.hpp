// Owns the writing of single ggml blocks of 32 weights: the reference quantisers, and the change of
// one weight under a block's own scale.
#pragma once

#include <vindex/decode/element_type.hpp>

#include <cstdint>

namespace vindex::decode {

inline constexpr int kBlockWeights = 32;

/// True for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
bool has_block_encoder(ElementType type);

/// Encodes 32 finite weights as ggml's quantize_row_*_ref does, bit for bit; where 1 / scale
/// overflows (weights below 2^-120) the codes are those of zero.
void encode_block(ElementType type, const float* values, std::uint8_t* block);

/// The 32 weights of a block.
void decode_block(ElementType type, const std::uint8_t* block, float* values);

/// Gap between neighbouring weights of a block: the magnitude of its scale.
float block_step(ElementType type, const std::uint8_t* block);

/// Gives weight `index` the code nearest to `value` under the block's scale and minimum (ties to
/// even); false, and nothing done, where `value` is more than half a step beyond all codes.
bool put_nearest(ElementType type, std::uint8_t* block, int index, float value);

}  // namespace vindex::decode
