// Owns the ggml codebook formats below two bits: 256 weights, values -1, 0, 1 from a codebook of
// eight at a time plus an eighth up or down. Structs are the bytes on disk; u16 little-endian.
//
//   IQ1_S  d@0 qs[32]@2 qh u16[8]@34    per 32: scale d (2 (qh >> 12 & 7) + 1), shift -1/8 where
//          bit 15 of qh is set, else +1/8; per 8: index qs | bits 3l of qh << 8
//   IQ1_M  qs[32]@0 qh[16]@32 sc u16[4]@48   d is the binary16 made of the top nibbles of sc (first
//          lowest); per 16: scale d (2 s + 1), s = bits 3(g % 4) of sc[g / 4]; per 8 a nibble n of
//          qh (low first): index qs | (n & 7) << 8, shift -1/8 where n & 8
//
// A weight is scale (value + shift): both factors have few bits, the product is exact in float32.
// Source: ggml src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "iq1_grid.hpp"
#include "iq_codes.hpp"

namespace vindex::decode {

/// Eight times (value + shift) of an IQ1 code, an integer: 8 (code - 1) + 1, or - 1 where `down`.
VINDEX_HD inline int iq1_eighths(std::uint32_t code, std::uint32_t down) {
  return static_cast<int>(8U * code + 2U * (1U - down)) - 9;
}

/// Eight weights of a codebook entry; `eighth` is scale / 8.
VINDEX_HD inline void iq1_eight(std::uint32_t entry, std::uint32_t down, float eighth,
                                float* __restrict__ out) {
  for (int j = 0; j < 8; ++j) {
    out[j] = static_cast<float>(iq1_eighths(code_of_entry<2>(entry, j), down)) * eighth;
  }
}

struct IQ1_SBlock {
  static constexpr ElementType kType = ElementType::kIQ1_S;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 50;
  std::uint8_t d[2];
  std::uint8_t qs[32];
  std::uint8_t qh[16];

  VINDEX_HD static float eighth_of(float d, std::uint32_t high) {
    return d * static_cast<float>(static_cast<int>(2U * ((high >> 12U) & 7U) + 1U)) * 0.125F;
  }
  VINDEX_HD static std::uint32_t entry_of(const IQ1_SBlock& block, std::uint32_t high, int group) {
    const std::uint32_t upper = (high >> static_cast<unsigned>(3 * (group % 4))) & 7U;
    return iq1_entry(block.qs[group] | (upper << 8U));
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ1_SBlock*>(bytes);
    const std::uint32_t high = load_as<std::uint16_t>(block.qh + index / 32 * 2);
    const std::uint32_t code = code_of_entry<2>(entry_of(block, high, index / 8), index % 8);
    return static_cast<float>(iq1_eighths(code, high >> 15U)) *
           eighth_of(half_to_float(load_as<std::uint16_t>(block.d)), high);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ1_SBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const std::uint32_t high = load_as<std::uint16_t>(block.qh + 2 * k);
      const float eighth = eighth_of(d, high);
      for (int l = 0; l < 4; ++l) {
        iq1_eight(entry_of(block, high, 4 * k + l), high >> 15U, eighth, out + 32 * k + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ1_SBlock) == IQ1_SBlock::kBytes && alignof(IQ1_SBlock) == 1);

struct IQ1_MBlock {
  static constexpr ElementType kType = ElementType::kIQ1_M;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 56;
  std::uint8_t qs[32];
  std::uint8_t qh[16];
  std::uint8_t sc[8];

  VINDEX_HD static std::uint32_t scale_word(const IQ1_MBlock& block, int word) {
    return load_as<std::uint16_t>(block.sc + 2 * word);
  }
  VINDEX_HD static float d_of(const IQ1_MBlock& block) {
    const std::uint32_t bits =
        (scale_word(block, 0) >> 12U) | ((scale_word(block, 1) >> 8U) & 0xF0U) |
        ((scale_word(block, 2) >> 4U) & 0xF00U) | (scale_word(block, 3) & 0xF000U);
    return half_to_float(static_cast<std::uint16_t>(bits));
  }
  /// An eighth of the scale of group `group` of sixteen weights (0..15).
  VINDEX_HD static float eighth_of(const IQ1_MBlock& block, float d, int group) {
    const std::uint32_t word = scale_word(block, group / 4);
    const std::uint32_t code = (word >> static_cast<unsigned>(3 * (group % 4))) & 7U;
    return d * static_cast<float>(static_cast<int>(2U * code + 1U)) * 0.125F;
  }
  VINDEX_HD static std::uint32_t nibble_of(const IQ1_MBlock& block, int group) {
    return (block.qh[group / 2] >> (group % 2 * 4)) & 15U;
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ1_MBlock*>(bytes);
    const std::uint32_t nibble = nibble_of(block, index / 8);
    const std::uint32_t entry = iq1_entry(block.qs[index / 8] | ((nibble & 7U) << 8U));
    const std::uint32_t code = code_of_entry<2>(entry, index % 8);
    return static_cast<float>(iq1_eighths(code, nibble >> 3U)) *
           eighth_of(block, d_of(block), index / 16);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ1_MBlock*>(bytes);
    const float d = d_of(block);
    for (int g = 0; g < 16; ++g) {
      const float eighth = eighth_of(block, d, g);
      for (int l = 0; l < 2; ++l) {
        const std::uint32_t nibble = nibble_of(block, 2 * g + l);
        const std::uint32_t entry = iq1_entry(block.qs[2 * g + l] | ((nibble & 7U) << 8U));
        iq1_eight(entry, nibble >> 3U, eighth, out + 16 * g + 8 * l);
      }
    }
  }
};
static_assert(sizeof(IQ1_MBlock) == IQ1_MBlock::kBytes && alignof(IQ1_MBlock) == 1);

}  // namespace vindex::decode
