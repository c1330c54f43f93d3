// Owns the ggml codebook formats of three bits: 256 weights, magnitudes from a codebook of four at
// a time, signs beside them. Structs are the bytes on disk. d is binary16, u32 little-endian.
//
//   IQ3_XXS  d@0 qs[64]@2 a u32[8]@66        per 8 two indices; magnitudes 4 12 20 28 36 44 52 62
//            scale d (a >> 28 + 1/2) / 2 per 32, sign index of group l: bits 7l of a
//   IQ3_S    d@0 qs[64]@2 qh[8]@66 signs[32]@74 scales[4]@106   magnitudes 1 3 ... 15
//            index i of the eight of 32 weights: qs | bit i of qh << 8; scale d (1 + 2 nibble) per
//            32, low nibble first
//
// Products are exact in float32 (at most 22 bits). Source: ggml src/ggml-common.h,
// src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "iq3_grids.hpp"
#include "iq_codes.hpp"

namespace vindex::decode {

struct IQ3_XXSBlock {
  static constexpr ElementType kType = ElementType::kIQ3_XXS;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 98;
  std::uint8_t d[2];
  std::uint8_t qs[64];
  std::uint8_t scales_and_signs[32];

  VINDEX_HD static float scale_of(float d, std::uint32_t packed) {
    return d * (0.5F + static_cast<float>(static_cast<std::int32_t>(packed >> 28U))) * 0.5F;
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ3_XXSBlock*>(bytes);
    const auto packed = load_as<std::uint32_t>(block.scales_and_signs + index / 32 * 4);
    const float scale = scale_of(half_to_float(load_as<std::uint16_t>(block.d)), packed);
    const std::uint32_t entry = iq3_xxs_entry(block.qs[index / 4]);
    const int value = iq3_xxs_value(code_of_entry<3>(entry, index % 4));
    return with_sign(static_cast<float>(value) * scale, even_signs(packed), index % 32);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ3_XXSBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const auto packed = load_as<std::uint32_t>(block.scales_and_signs + 4 * k);
      const float scale = scale_of(d, packed);
      const std::uint32_t signs = even_signs(packed);
      const std::uint8_t* qs = block.qs + 8 * k;
      for (int l = 0; l < 4; ++l) {
        // Two entries of four make one of eight.
        const std::uint32_t entry =
            iq3_xxs_entry(qs[2 * l]) | (iq3_xxs_entry(qs[2 * l + 1]) << 12U);
        decode_eight<3, iq3_xxs_value>(entry, signs >> static_cast<unsigned>(8 * l), scale,
                                       out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ3_XXSBlock) == IQ3_XXSBlock::kBytes && alignof(IQ3_XXSBlock) == 1);

struct IQ3_SBlock {
  static constexpr ElementType kType = ElementType::kIQ3_S;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 110;
  std::uint8_t d[2];
  std::uint8_t qs[64];
  std::uint8_t qh[8];
  std::uint8_t signs[32];
  std::uint8_t scales[4];

  /// The codebook entry of group `group` of four weights (0..63).
  VINDEX_HD static std::uint32_t entry_of(const IQ3_SBlock& block, int group) {
    const std::uint32_t high = (block.qh[group / 8] >> (group % 8)) & 1U;
    return iq3_s_entry(block.qs[group] | (high << 8U));
  }
  VINDEX_HD static float scale_of(const IQ3_SBlock& block, float d, int run) {
    return d * static_cast<float>(1 + 2 * ((block.scales[run / 2] >> (run % 2 * 4)) & 15));
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ3_SBlock*>(bytes);
    const float scale = scale_of(block, half_to_float(load_as<std::uint16_t>(block.d)), index / 32);
    const int value = iq3_s_value(code_of_entry<3>(entry_of(block, index / 4), index % 4));
    return with_sign(static_cast<float>(value) * scale, block.signs[index / 8], index % 8);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ3_SBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const float scale = scale_of(block, d, k);
      for (int l = 0; l < 4; ++l) {
        const int group = 8 * k + 2 * l;
        const std::uint32_t entry = entry_of(block, group) | (entry_of(block, group + 1) << 12U);
        decode_eight<3, iq3_s_value>(entry, block.signs[4 * k + l], scale, out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ3_SBlock) == IQ3_SBlock::kBytes && alignof(IQ3_SBlock) == 1);

}  // namespace vindex::decode
