// Owns the ggml "K" block formats: 256 weights, sub-blocks with small integer scales. Structs are
// the bytes on disk. d, dmin are binary16.
//   Q4_K  d@0 dmin@2 scales[12]@4 qs[128]@16              d sc nibble - dmin mn
//   Q5_K  d@0 dmin@2 scales[12]@4 qh[32]@16 qs[128]@48    d sc (nibble | bit << 4) - dmin mn
//   Q6_K  ql[128]@0 qh[64]@128 scales i8[16]@192 d@208    d sc ((nibble | two bits << 4) - 32)
// Q4_K, Q5_K: sub-block k holds weights 32k..32k+31 with a six-bit scale and minimum packed in 12
// bytes; 32 bytes of qs serve sub-blocks 2i (low nibbles) and 2i+1 (high nibbles); the fifth bit of
// weight 32k+l is bit k of qh[l].
// Q6_K: half h, l = 0..31: weights 128h + {0,32,64,96} + l have the low nibbles of ql[64h+l],
// ql[64h+l+32], then their high nibbles, and the bit pairs {0,2,4,6} of qh[32h+l]; a scale per 16.
// Products are exact in float32 (at most 23 bits), so the difference is the only rounding.
// Source: ggml src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
//
// Also owns the ggml "K" block formats of two and three bits: 256 weights, a scale per 16. Structs
// are the bytes on disk. d, dmin are binary16.
//   Q2_K  scales[16]@0 qs[64]@16 d@80 dmin@82         d (s & 15) q - dmin (s >> 4)
//   Q3_K  hmask[32]@0 qs[64]@32 scales[12]@96 d@108   d (s - 32) (q - (high ? 0 : 4))
// Planes: the two-bit code of weight 128h + 32p + l (h < 2, p < 4, l < 32) is bits 2p of
// qs[32h + l]; the high bit of Q3_K's weight 32k + l is bit k of hmask[l]. Q3_K's sixteen scales of
// six bits: low four from nibble k/8 of scales[k % 8], high two from bits 2(k/4) of scales[8 + k %
// 4]. Products are exact in float32, so Q2_K's difference is the only rounding. Source: ggml
// src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "float_formats.hpp"

namespace vindex::decode {

/// Scale and minimum of sub-block `index` (0..7) of the twelve packed bytes of Q4_K and Q5_K.
struct SixBitPair {
  int scale;
  int minimum;
};
VINDEX_HD inline SixBitPair six_bit_pair(const std::uint8_t* packed, int index) {
  if (index < 4) {
    return {packed[index] & 63, packed[index + 4] & 63};
  }
  return {(packed[index + 4] & 15) | ((packed[index - 4] >> 6) << 4),
          (packed[index + 4] >> 4) | ((packed[index] >> 6) << 4)};
}

struct Q4_KBlock {
  static constexpr ElementType kType = ElementType::kQ4_K;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 144;
  std::uint8_t d[2];
  std::uint8_t dmin[2];
  std::uint8_t scales[12];
  std::uint8_t qs[128];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q4_KBlock*>(bytes);
    const int sub_block = index / 32;
    const SixBitPair pair = six_bit_pair(block.scales, sub_block);
    const float scale =
        half_to_float(load_as<std::uint16_t>(block.d)) * static_cast<float>(pair.scale);
    const float minimum =
        half_to_float(load_as<std::uint16_t>(block.dmin)) * static_cast<float>(pair.minimum);
    const int code = (block.qs[sub_block / 2 * 32 + index % 32] >> (sub_block % 2 * 4)) & 15;
    return scale * static_cast<float>(code) - minimum;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q4_KBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float dmin = half_to_float(load_as<std::uint16_t>(block.dmin));
    for (int k = 0; k < 8; k += 2) {
      const SixBitPair low = six_bit_pair(block.scales, k);
      const SixBitPair high = six_bit_pair(block.scales, k + 1);
      const float low_scale = d * static_cast<float>(low.scale);
      const float low_minimum = dmin * static_cast<float>(low.minimum);
      const float high_scale = d * static_cast<float>(high.scale);
      const float high_minimum = dmin * static_cast<float>(high.minimum);
      const std::uint8_t* qs = block.qs + 16 * k;
      for (int l = 0; l < 32; ++l) {
        out[32 * k + l] = low_scale * static_cast<float>(qs[l] & 15) - low_minimum;
        out[32 * k + 32 + l] = high_scale * static_cast<float>(qs[l] >> 4) - high_minimum;
      }
    }
  }
};
static_assert(sizeof(Q4_KBlock) == Q4_KBlock::kBytes && alignof(Q4_KBlock) == 1);

struct Q5_KBlock {
  static constexpr ElementType kType = ElementType::kQ5_K;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 176;
  std::uint8_t d[2];
  std::uint8_t dmin[2];
  std::uint8_t scales[12];
  std::uint8_t qh[32];
  std::uint8_t qs[128];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q5_KBlock*>(bytes);
    const int sub_block = index / 32;
    const SixBitPair pair = six_bit_pair(block.scales, sub_block);
    const float scale =
        half_to_float(load_as<std::uint16_t>(block.d)) * static_cast<float>(pair.scale);
    const float minimum =
        half_to_float(load_as<std::uint16_t>(block.dmin)) * static_cast<float>(pair.minimum);
    const int low = (block.qs[sub_block / 2 * 32 + index % 32] >> (sub_block % 2 * 4)) & 15;
    const int code = low | (((block.qh[index % 32] >> sub_block) & 1) << 4);
    return scale * static_cast<float>(code) - minimum;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q5_KBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float dmin = half_to_float(load_as<std::uint16_t>(block.dmin));
    for (int k = 0; k < 8; k += 2) {
      const SixBitPair low = six_bit_pair(block.scales, k);
      const SixBitPair high = six_bit_pair(block.scales, k + 1);
      const float low_scale = d * static_cast<float>(low.scale);
      const float low_minimum = dmin * static_cast<float>(low.minimum);
      const float high_scale = d * static_cast<float>(high.scale);
      const float high_minimum = dmin * static_cast<float>(high.minimum);
      const std::uint8_t* qs = block.qs + 16 * k;
      for (int l = 0; l < 32; ++l) {
        const int bits = block.qh[l] >> k;
        out[32 * k + l] =
            low_scale * static_cast<float>((qs[l] & 15) | ((bits & 1) << 4)) - low_minimum;
        out[32 * k + 32 + l] =
            high_scale * static_cast<float>((qs[l] >> 4) | ((bits & 2) << 3)) - high_minimum;
      }
    }
  }
};
static_assert(sizeof(Q5_KBlock) == Q5_KBlock::kBytes && alignof(Q5_KBlock) == 1);

struct Q6_KBlock {
  static constexpr ElementType kType = ElementType::kQ6_K;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 210;
  std::uint8_t ql[128];
  std::uint8_t qh[64];
  std::uint8_t scales[16];
  std::uint8_t d[2];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q6_KBlock*>(bytes);
    const int half = index / 128;
    const int plane = index % 128 / 32;
    const int l = index % 32;
    const int low = (block.ql[64 * half + plane % 2 * 32 + l] >> (plane / 2 * 4)) & 15;
    const int high = (block.qh[32 * half + l] >> (2 * plane)) & 3;
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float scale = d * static_cast<float>(static_cast<std::int8_t>(block.scales[index / 16]));
    return scale * static_cast<float>((low | (high << 4)) - 32);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q6_KBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    // Sixteen weights share a scale: one step of `part` writes four runs of sixteen.
    for (int part = 0; part < 4; ++part) {
      const int half = part / 2;
      const int first = part % 2 * 16;
      const std::uint8_t* ql = block.ql + 64 * half + first;
      const std::uint8_t* qh = block.qh + 32 * half + first;
      const std::uint8_t* scales = block.scales + 8 * half + part % 2;
      float* to = out + 128 * half + first;
      float scale[4];
      for (int plane = 0; plane < 4; ++plane) {
        scale[plane] = d * static_cast<float>(static_cast<std::int8_t>(scales[2 * plane]));
      }
      for (int l = 0; l < 16; ++l) {
        const int high = qh[l];
        to[l] = scale[0] * static_cast<float>(((ql[l] & 15) | ((high & 3) << 4)) - 32);
        to[32 + l] = scale[1] * static_cast<float>(((ql[32 + l] & 15) | ((high & 12) << 2)) - 32);
        to[64 + l] = scale[2] * static_cast<float>(((ql[l] >> 4) | (high & 48)) - 32);
        to[96 + l] = scale[3] * static_cast<float>(((ql[32 + l] >> 4) | ((high & 192) >> 2)) - 32);
      }
    }
  }
};
static_assert(sizeof(Q6_KBlock) == Q6_KBlock::kBytes && alignof(Q6_KBlock) == 1);

/// Where the 16 weights that share scale `run` (0..15) have their two-bit codes.
struct PlaneRun {
  int byte;   ///< in qs; the bytes of the run follow
  int shift;  ///< of the code in its byte
};
VINDEX_HD inline PlaneRun plane_run(int run) {
  return {run / 8 * 32 + run % 2 * 16, run % 8 / 2 * 2};
}

struct Q2_KBlock {
  static constexpr ElementType kType = ElementType::kQ2_K;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 84;
  std::uint8_t scales[16];
  std::uint8_t qs[64];
  std::uint8_t d[2];
  std::uint8_t dmin[2];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q2_KBlock*>(bytes);
    const PlaneRun run = plane_run(index / 16);
    const int packed = block.scales[index / 16];
    const float scale =
        half_to_float(load_as<std::uint16_t>(block.d)) * static_cast<float>(packed & 15);
    const float minimum =
        half_to_float(load_as<std::uint16_t>(block.dmin)) * static_cast<float>(packed >> 4);
    const int code = (block.qs[run.byte + index % 16] >> run.shift) & 3;
    return scale * static_cast<float>(code) - minimum;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q2_KBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float dmin = half_to_float(load_as<std::uint16_t>(block.dmin));
    for (int k = 0; k < 16; ++k) {
      const PlaneRun run = plane_run(k);
      const float scale = d * static_cast<float>(block.scales[k] & 15);
      const float minimum = dmin * static_cast<float>(block.scales[k] >> 4);
      const std::uint8_t* qs = block.qs + run.byte;
      for (int l = 0; l < 16; ++l) {
        out[16 * k + l] = scale * static_cast<float>((qs[l] >> run.shift) & 3) - minimum;
      }
    }
  }
};
static_assert(sizeof(Q2_KBlock) == Q2_KBlock::kBytes && alignof(Q2_KBlock) == 1);

struct Q3_KBlock {
  static constexpr ElementType kType = ElementType::kQ3_K;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 110;
  std::uint8_t hmask[32];
  std::uint8_t qs[64];
  std::uint8_t scales[12];
  std::uint8_t d[2];

  VINDEX_HD static int scale_of(const std::uint8_t* packed, int run) {
    const int low = (packed[run % 8] >> (run / 8 * 4)) & 15;
    const int high = (packed[8 + run % 4] >> (run / 4 * 2)) & 3;
    return (low | (high << 4)) - 32;
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q3_KBlock*>(bytes);
    const PlaneRun run = plane_run(index / 16);
    const float scale = half_to_float(load_as<std::uint16_t>(block.d)) *
                        static_cast<float>(scale_of(block.scales, index / 16));
    const int low = (block.qs[run.byte + index % 16] >> run.shift) & 3;
    const int high = (block.hmask[index % 32] >> (index / 32)) & 1;
    return scale * static_cast<float>((low | (high << 2)) - 4);
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q3_KBlock*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 16; ++k) {
      const PlaneRun run = plane_run(k);
      const float scale = d * static_cast<float>(scale_of(block.scales, k));
      const std::uint8_t* qs = block.qs + run.byte;
      const std::uint8_t* hmask = block.hmask + k % 2 * 16;
      for (int l = 0; l < 16; ++l) {
        const int low = (qs[l] >> run.shift) & 3;
        const int high = (hmask[l] >> (k / 2)) & 1;
        out[16 * k + l] = scale * static_cast<float>((low | (high << 2)) - 4);
      }
    }
  }
};
static_assert(sizeof(Q3_KBlock) == Q3_KBlock::kBytes && alignof(Q3_KBlock) == 1);

}  // namespace vindex::decode
