// Owns the rules of the encoders for single weights, written without branches so that loops over
// them become vector code, and for single ggml blocks of 32 weights: the reference quantisers, and
// the change of one weight under a block's own scale.
#pragma once

#include "core/portable.hpp"
#include "decode/encoding/element_type.hpp"

#include <cstdint>

namespace vindex::decode::scalar {

inline std::uint16_t to_bf16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
  // A NaN whose payload sits in the low half would otherwise round to infinity.
  const std::uint32_t quiet = (bits >> 16U) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

inline float from_bf16(std::uint16_t code) {
  return bits_as<float>(static_cast<std::uint32_t>(code) << 16U);
}

inline std::uint16_t to_f16(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal =
      ((magnitude + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U) - (112U << 10U);
  // Adding 0.5 aligns the last kept bit of a subnormal half (2^-24) with the last bit of the sum.
  const std::uint32_t subnormal =
      bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F) - 0x3F000000U;
  std::uint32_t code = magnitude < 0x38800000U ? subnormal : normal;
  code = magnitude >= 0x477FF000U ? 0x7C00U : code;  // 65520 and beyond round to infinity
  code = magnitude > 0x7F800000U ? 0x7E00U : code;
  return static_cast<std::uint16_t>(sign | code);
}

inline float from_f16(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000U) << 16U;
  const std::uint32_t magnitude = code & 0x7FFFU;
  const std::uint32_t normal = (magnitude << 13U) + (112U << 23U);
  const auto subnormal =
      bits_as<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24F);
  std::uint32_t out = magnitude < 0x400U ? subnormal : normal;
  out = magnitude >= 0x7C00U ? (magnitude << 13U) | 0x7F800000U : out;
  return bits_as<float>(sign | out);
}

inline std::uint8_t to_e4m3(float value) {
  const auto bits = bits_as<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24U) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal =
      ((magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U)) >> 20U) - (120U << 3U);
  // 2^14 has its last bit at 2^-9, the step of subnormal codes.
  const std::uint32_t subnormal =
      bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0x1p14F) - 0x46800000U;
  std::uint32_t code = magnitude < 0x3C800000U ? subnormal : normal;
  code = magnitude >= 0x43E00000U ? 0x7EU : code;  // 448 and beyond
  code = magnitude > 0x7F800000U ? 0x7FU : code;
  return static_cast<std::uint8_t>(sign | code);
}

/// Value of a finite code.
inline float from_e4m3(std::uint8_t code) {
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80U) << 24U;
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t normal = (magnitude << 20U) + (120U << 23U);
  const auto subnormal =
      bits_as<std::uint32_t>(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-9F);
  return bits_as<float>(sign | (magnitude < 8U ? subnormal : normal));
}

/// Nearest integer, ties to even, for |value| < 2^22: the sum's last bit is worth 1.
inline std::int32_t nearest_even(float value) {
  return static_cast<std::int32_t>(bits_as<std::uint32_t>(value + 0x1.8p23F)) - 0x4B400000;
}

}  // namespace vindex::decode::scalar

namespace vindex::decode {

inline constexpr int kBlockWeights = 32;

/// True for Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
bool has_block_encoder(ElementType type);

/// Encodes 32 finite weights under the scale and minimum of ggml's quantize_row_*_ref; every code
/// is the nearest under the scale and minimum as they are stored (ggml's is that of the scale
/// before it is rounded to F16). A scale below 2^-14, or a minimum that rounding moves by more than
/// half a step, is the better of its two neighbours among the halves, by squared error.
void encode_block(ElementType type, const float* values, std::uint8_t* block);

/// The 32 weights of a block.
void decode_block(ElementType type, const std::uint8_t* block, float* values);

/// Gap between neighbouring weights of a block: the magnitude of its scale.
float block_step(ElementType type, const std::uint8_t* block);

/// Gives weight `index` the code nearest to `value` under the block's scale and minimum, the first
/// or last one where it lies beyond them; a code that is as near as any stays. False where `value`
/// is more than half a step beyond all codes.
bool put_nearest(ElementType type, std::uint8_t* block, int index, float value);

}  // namespace vindex::decode
