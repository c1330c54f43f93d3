// Owns the ggml block formats of four bits whose codes are not evenly spaced. Structs are the bytes
// on disk; nibbles in halves order (simple_blocks.hpp).
//
//   IQ4_NL   32 weights  d@0 qs[16]@2                                 d T[nibble]
//   IQ4_XS  256 weights  d@0 scales_h u16@2 scales_l[4]@4 qs[128]@8   d (s - 32) T[nibble], a
//           six-bit scale per 32: low four bits nibble k of scales_l, high two bits 2k of scales_h
//   MXFP4    32 weights  e@0 qs[16]@1                                 2^(e-127) E2M1[nibble]
//   NVFP4    64 weights  d[4]@0 qs[32]@4                              UE4M3(d[s]) E2M1[nibble], a
//           scale per 16: s = 0..3 has bytes 8s..8s+7 of qs, low nibbles its weights 0..7, high
//           nibbles 8..15. A float32 factor may stand in a tensor beside these blocks
//           (`<name>.scale`); it is not applied here.
//
// T is iq4_value(). E2M1: 0 .5 1 1.5 2 3 4 6, bit 3 the sign; code 8 gives +0 as in ggml. e =
// 255 is NaN (OCP Microscaling 1.0), where ggml's decoder takes 2^128. Source: ggml
// src/ggml-common.h (kvalues_iq4nl, MIT), src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "simple_blocks.hpp"

namespace vindex::decode {

/// T[code] of the IQ4 formats: -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113. A
/// polynomial fitted to pass within half a unit of all sixteen (checked below): lookups do not
/// vectorise.
VINDEX_HD constexpr int iq4_value(int code) {
  return ((((13 * code + 255) * code - 11240) * code + 198031) * code - 1033109) >> 13;
}
static_assert(iq4_value(0) == -127 && iq4_value(1) == -104 && iq4_value(2) == -83 &&
              iq4_value(3) == -65 && iq4_value(4) == -49 && iq4_value(5) == -35 &&
              iq4_value(6) == -22 && iq4_value(7) == -10 && iq4_value(8) == 1 &&
              iq4_value(9) == 13 && iq4_value(10) == 25 && iq4_value(11) == 38 &&
              iq4_value(12) == 53 && iq4_value(13) == 69 && iq4_value(14) == 89 &&
              iq4_value(15) == 113);

/// Twice the value of an E2M1 code (0..15), an integer: 0 1 2 3 4 6 8 12 and their negatives. The
/// polynomial is exact at all eight magnitudes (checked below).
VINDEX_HD constexpr int e2m1_doubled(int code) {
  const int c = code & 7;
  const int magnitude = (((c - 7) * c + 28) * c + 8) >> 4;
  const int minus = -(code >> 3);  // all bits where negative
  return (magnitude ^ minus) - minus;
}
static_assert(e2m1_doubled(0) == 0 && e2m1_doubled(1) == 1 && e2m1_doubled(2) == 2 &&
              e2m1_doubled(3) == 3 && e2m1_doubled(4) == 4 && e2m1_doubled(5) == 6 &&
              e2m1_doubled(6) == 8 && e2m1_doubled(7) == 12 && e2m1_doubled(8) == 0 &&
              e2m1_doubled(9) == -1 && e2m1_doubled(13) == -6 && e2m1_doubled(15) == -12);

struct IQ4_NLBlock {
  static constexpr ElementType kType = ElementType::kIQ4_NL;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  std::uint8_t d[2];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ4_NLBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    return static_cast<float>(iq4_value(nibble_of_halves(block.qs, index))) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ4_NLBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>(iq4_value(block.qs[j] & 15)) * d;
    }
    for (int j = 0; j < 16; ++j) {
      out[j + 16] = static_cast<float>(iq4_value(block.qs[j] >> 4)) * d;
    }
  }
};
static_assert(sizeof(IQ4_NLBlock) == IQ4_NLBlock::kBytes && alignof(IQ4_NLBlock) == 1);

struct IQ4_XSBlock {
  static constexpr ElementType kType = ElementType::kIQ4_XS;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 136;
  std::uint8_t d[2];
  std::uint8_t scales_h[2];
  std::uint8_t scales_l[4];
  std::uint8_t qs[128];

  VINDEX_HD static int scale_of(const IQ4_XSBlock& block, int sub_block) {
    const int low = (block.scales_l[sub_block / 2] >> (sub_block % 2 * 4)) & 15;
    const int high = (load_as<std::uint16_t>(block.scales_h) >> (2 * sub_block)) & 3;
    return (low | (high << 4)) - 32;
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const IQ4_XSBlock*>(bytes);
    const int sub_block = index / 32;
    const float scale = half_to_float(load_as<std::uint16_t>(block.d)) *
                        static_cast<float>(scale_of(block, sub_block));
    return static_cast<float>(iq4_value(nibble_of_halves(block.qs + 16 * sub_block, index % 32))) *
           scale;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const IQ4_XSBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const float scale = d * static_cast<float>(scale_of(block, k));
      const std::uint8_t* qs = block.qs + 16 * k;
      for (int j = 0; j < 16; ++j) {
        out[32 * k + j] = static_cast<float>(iq4_value(qs[j] & 15)) * scale;
      }
      for (int j = 0; j < 16; ++j) {
        out[32 * k + 16 + j] = static_cast<float>(iq4_value(qs[j] >> 4)) * scale;
      }
    }
  }
};
static_assert(sizeof(IQ4_XSBlock) == IQ4_XSBlock::kBytes && alignof(IQ4_XSBlock) == 1);

struct MXFP4Block {
  static constexpr ElementType kType = ElementType::kMXFP4;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 17;
  std::uint8_t e;
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const MXFP4Block*>(bytes);
    return static_cast<float>(e2m1_doubled(nibble_of_halves(block.qs, index))) *
           (e8m0_to_float(block.e) * 0.5F);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const MXFP4Block*>(bytes);
    const float scale = e8m0_to_float(block.e) * 0.5F;  // exact: 2^-128 is a subnormal
    std::int8_t low[16];
    std::int8_t high[16];
    for (int j = 0; j < 16; ++j) {
      low[j] = static_cast<std::int8_t>(e2m1_doubled(block.qs[j] & 15));
      high[j] = static_cast<std::int8_t>(e2m1_doubled(block.qs[j] >> 4));
    }
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>(low[j]) * scale;
    }
    for (int j = 0; j < 16; ++j) {
      out[16 + j] = static_cast<float>(high[j]) * scale;
    }
  }
};
static_assert(sizeof(MXFP4Block) == MXFP4Block::kBytes && alignof(MXFP4Block) == 1);

/// ggml's unsigned E4M3: E4M3 without its sign, 0x7F meaning 0 and 0xFF an ordinary 480.
VINDEX_HD inline float ue4m3_to_float(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t normal = (magnitude << 20U) + (120U << 23U);
  const std::uint32_t bits = choose(magnitude < 8U, subnormal_bits(magnitude, 0x1p-9F), normal);
  return bits_as<float>(choose(code == 0x7FU, 0U, bits));
}

struct NVFP4Block {
  static constexpr ElementType kType = ElementType::kNVFP4;
  static constexpr int kElements = 64;
  static constexpr int kBytes = 36;
  std::uint8_t d[4];
  std::uint8_t qs[32];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const NVFP4Block*>(bytes);
    const int code = (block.qs[index / 16 * 8 + index % 8] >> (index % 16 / 8 * 4)) & 15;
    return static_cast<float>(e2m1_doubled(code)) * (ue4m3_to_float(block.d[index / 16]) * 0.5F);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const NVFP4Block*>(bytes);
    // Values first, over all bytes: eight at a time is too few for the vectors.
    std::int8_t low[32];
    std::int8_t high[32];
    for (int j = 0; j < 32; ++j) {
      low[j] = static_cast<std::int8_t>(e2m1_doubled(block.qs[j] & 15));
      high[j] = static_cast<std::int8_t>(e2m1_doubled(block.qs[j] >> 4));
    }
    for (int s = 0; s < 4; ++s) {
      const float scale = ue4m3_to_float(block.d[s]) * 0.5F;
      for (int j = 0; j < 8; ++j) {
        out[16 * s + j] = static_cast<float>(low[8 * s + j]) * scale;
      }
      for (int j = 0; j < 8; ++j) {
        out[16 * s + 8 + j] = static_cast<float>(high[8 * s + j]) * scale;
      }
    }
  }
};
static_assert(sizeof(NVFP4Block) == NVFP4Block::kBytes && alignof(NVFP4Block) == 1);

}  // namespace vindex::decode
