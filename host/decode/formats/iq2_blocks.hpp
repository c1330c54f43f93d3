// Owns the ggml codebook formats of two to two and a half bits: 256 weights, magnitudes 8, 25, 43
// from a codebook of eight at a time, signs beside them. Structs are the bytes on disk. d is
// binary16, u16 and u32 little-endian.
//
//   IQ2_XXS  d@0 qs[64]@2                                   per 32: four u8 indices, u32 a
//            scale d (a >> 28 + 1/2) / 4 per 32, sign index of group l: bits 7l of a
//   IQ2_XS   d@0 qs u16[32]@2 scales[8]@66                  per 8: index q & 511, sign index q >> 9
//   IQ2_S    d@0 qs[32]@2 signs[32]@34 qh[8]@66 scales[8]@74   per 8: index qs | bits 2l of qh << 8
//            both: scale d (nibble + 1/2) / 4 per 16, low nibble first
//
// Products are exact in float32 (at most 22 bits). Source: ggml src/ggml-common.h,
// src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "iq2_grids.hpp"
#include "iq_codes.hpp"

namespace vindex::decode {

/// d (code + 1/2) / 4, exact.
VINDEX_HD inline float iq2_scale(float d, std::uint32_t code) {
  return d * (0.5F + static_cast<float>(static_cast<std::int32_t>(code))) * 0.25F;
}

struct IQ2_XXSBlock {
  static constexpr ElementType kType = ElementType::kIQ2_XXS;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 66;
  std::uint8_t d[2];
  std::uint8_t qs[64];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ2_XXSBlock*>(bytes);
    const std::uint8_t* run = block.qs + index / 32 * 8;
    const auto packed = load_as<std::uint32_t>(run + 4);
    const float scale = iq2_scale(half_to_float(load_as<std::uint16_t>(block.d)), packed >> 28U);
    const std::uint32_t entry = iq2_xxs_entry(run[index % 32 / 8]);
    const int value = iq2_value(code_of_entry<2>(entry, index % 8));
    return with_sign(static_cast<float>(value) * scale, even_signs(packed), index % 32);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ2_XXSBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const std::uint8_t* run = block.qs + 8 * k;
      const auto packed = load_as<std::uint32_t>(run + 4);
      const float scale = iq2_scale(d, packed >> 28U);
      const std::uint32_t signs = even_signs(packed);
      for (int l = 0; l < 4; ++l) {
        decode_eight<2, iq2_value>(iq2_xxs_entry(run[l]), signs >> static_cast<unsigned>(8 * l),
                                   scale, out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ2_XXSBlock) == IQ2_XXSBlock::kBytes && alignof(IQ2_XXSBlock) == 1);

struct IQ2_XSBlock {
  static constexpr ElementType kType = ElementType::kIQ2_XS;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 74;
  std::uint8_t d[2];
  std::uint8_t qs[64];
  std::uint8_t scales[8];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ2_XSBlock*>(bytes);
    const std::uint32_t packed = load_as<std::uint16_t>(block.qs + index / 8 * 2);
    const std::uint32_t nibble = (block.scales[index / 32] >> (index % 32 / 16 * 4)) & 15U;
    const float scale = iq2_scale(half_to_float(load_as<std::uint16_t>(block.d)), nibble);
    const int value = iq2_value(code_of_entry<2>(iq2_xs_entry(packed & 511U), index % 8));
    return with_sign(static_cast<float>(value) * scale, even_signs(packed >> 9U), index % 8);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ2_XSBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const float scale[2] = {iq2_scale(d, block.scales[k] & 15U),
                              iq2_scale(d, block.scales[k] >> 4U)};
      for (int l = 0; l < 4; ++l) {
        const std::uint32_t packed = load_as<std::uint16_t>(block.qs + 8 * k + 2 * l);
        decode_eight<2, iq2_value>(iq2_xs_entry(packed & 511U), even_signs(packed >> 9U),
                                   scale[l / 2], out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ2_XSBlock) == IQ2_XSBlock::kBytes && alignof(IQ2_XSBlock) == 1);

struct IQ2_SBlock {
  static constexpr ElementType kType = ElementType::kIQ2_S;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 82;
  std::uint8_t d[2];
  std::uint8_t qs[32];
  std::uint8_t signs[32];
  std::uint8_t qh[8];
  std::uint8_t scales[8];

  /// The codebook entry of group `group` (0..31).
  VINDEX_HD static std::uint32_t entry_of(const IQ2_SBlock& block, int group) {
    const std::uint32_t high = (block.qh[group / 4] >> (group % 4 * 2)) & 3U;
    return iq2_s_entry(block.qs[group] | (high << 8U));
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ2_SBlock*>(bytes);
    const std::uint32_t nibble = (block.scales[index / 32] >> (index % 32 / 16 * 4)) & 15U;
    const float scale = iq2_scale(half_to_float(load_as<std::uint16_t>(block.d)), nibble);
    const int value = iq2_value(code_of_entry<2>(entry_of(block, index / 8), index % 8));
    return with_sign(static_cast<float>(value) * scale, block.signs[index / 8], index % 8);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ2_SBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const float scale[2] = {iq2_scale(d, block.scales[k] & 15U),
                              iq2_scale(d, block.scales[k] >> 4U)};
      for (int l = 0; l < 4; ++l) {
        decode_eight<2, iq2_value>(entry_of(block, 4 * k + l), block.signs[4 * k + l], scale[l / 2],
                                   out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ2_SBlock) == IQ2_SBlock::kBytes && alignof(IQ2_SBlock) == 1);

}  // namespace vindex::decode
