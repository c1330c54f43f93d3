// Owns the ggml "K" block formats of two and three bits: 256 weights, a scale per 16. Structs are
// the bytes on disk. d, dmin are binary16.
//   Q2_K  scales[16]@0 qs[64]@16 d@80 dmin@82         d (s & 15) q - dmin (s >> 4)
//   Q3_K  hmask[32]@0 qs[64]@32 scales[12]@96 d@108   d (s - 32) (q - (high ? 0 : 4))
// Planes: the two-bit code of weight 128h + 32p + l (h < 2, p < 4, l < 32) is bits 2p of
// qs[32h + l]; the high bit of Q3_K's weight 32k + l is bit k of hmask[l]. Q3_K's sixteen scales of
// six bits: low four from nibble k/8 of scales[k % 8], high two from bits 2(k/4) of scales[8 + k %
// 4]. Products are exact in float32, so Q2_K's difference is the only rounding. Source: ggml
// src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
#pragma once

#include <vindex/decode/float_formats.hpp>

namespace vindex::decode {

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
