// Owns the ggml block formats of one to two bits with one scale. Structs are the bytes on disk.
//   Q1_0   128 weights  d@0 qs[16]@2         bit j % 8 of byte j / 8: +d or -d
//   Q2_0    64 weights  d@0 qs[16]@2         (two bits 2(j % 4) of byte j / 4, less 1) d
//   TQ1_0  256 weights  qs[48]@0 qh[4]@48 d@52   (trit - 1) d; five trits in a byte, four in qh
//   TQ2_0  256 weights  qs[64]@0 d@64        (code - 1) d; planes as Q2_K
// Trit n of byte b is (((b 3^n) mod 256) 3) >> 8: the byte is a fraction of 256 in base three.
// TQ1_0's order: bytes 0..31 for n = 0..4, bytes 32..47 for n = 0..4, the four of qh for n = 0..3.
// Source: ggml src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "float_formats.hpp"

namespace vindex::decode {

struct Q1_0Block {
  static constexpr ElementType kType = ElementType::kQ1_0;
  static constexpr int kElements = 128;
  static constexpr int kBytes = 18;
  std::uint8_t d[2];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q1_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const int bit = (block.qs[index / 8] >> (index % 8)) & 1;
    return static_cast<float>(2 * bit - 1) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q1_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 16; ++k) {
      const std::uint32_t bits = block.qs[k];
      for (int j = 0; j < 8; ++j) {
        const auto bit = static_cast<int>((bits >> static_cast<unsigned>(j)) & 1U);
        out[8 * k + j] = static_cast<float>(2 * bit - 1) * d;
      }
    }
  }
};
static_assert(sizeof(Q1_0Block) == Q1_0Block::kBytes && alignof(Q1_0Block) == 1);

struct Q2_0Block {
  static constexpr ElementType kType = ElementType::kQ2_0;
  static constexpr int kElements = 64;
  static constexpr int kBytes = 18;
  std::uint8_t d[2];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q2_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    return static_cast<float>(((block.qs[index / 4] >> (2 * (index % 4))) & 3) - 1) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q2_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const std::uint32_t bits = load_as<std::uint16_t>(block.qs + 2 * k);
      for (int j = 0; j < 8; ++j) {
        const auto code = static_cast<int>((bits >> static_cast<unsigned>(2 * j)) & 3U);
        out[8 * k + j] = static_cast<float>(code - 1) * d;
      }
    }
  }
};
static_assert(sizeof(Q2_0Block) == Q2_0Block::kBytes && alignof(Q2_0Block) == 1);

struct TQ1_0Block {
  static constexpr ElementType kType = ElementType::kTQ1_0;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 54;
  std::uint8_t qs[48];
  std::uint8_t qh[4];
  std::uint8_t d[2];

  /// The trit of `byte` at place value 3^-(n+1), `power` being 3^n; less 1.
  VINDEX_HD static int sign_of(int byte, int power) {
    return ((((byte * power) & 255) * 3) >> 8) - 1;
  }
  VINDEX_HD static int power_of_three(int n) {
    return n == 0 ? 1 : n == 1 ? 3 : n == 2 ? 9 : n == 3 ? 27 : 81;
  }
  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const TQ1_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    int byte = 0;
    int n = 0;
    if (index < 160) {
      byte = block.qs[index % 32];
      n = index / 32;
    } else if (index < 240) {
      byte = block.qs[32 + (index - 160) % 16];
      n = (index - 160) / 16;
    } else {
      byte = block.qh[(index - 240) % 4];
      n = (index - 240) / 4;
    }
    return static_cast<float>(sign_of(byte, power_of_three(n))) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const TQ1_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int n = 0; n < 5; ++n) {
      const int power = power_of_three(n);
      for (int l = 0; l < 32; ++l) {
        out[32 * n + l] = static_cast<float>(sign_of(block.qs[l], power)) * d;
      }
      for (int l = 0; l < 16; ++l) {
        out[160 + 16 * n + l] = static_cast<float>(sign_of(block.qs[32 + l], power)) * d;
      }
    }
    for (int j = 0; j < 16; ++j) {
      out[240 + j] = static_cast<float>(sign_of(block.qh[j % 4], power_of_three(j / 4))) * d;
    }
  }
};
static_assert(sizeof(TQ1_0Block) == TQ1_0Block::kBytes && alignof(TQ1_0Block) == 1);

struct TQ2_0Block {
  static constexpr ElementType kType = ElementType::kTQ2_0;
  static constexpr int kElements = 256;
  static constexpr int kBytes = 66;
  std::uint8_t qs[64];
  std::uint8_t d[2];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const TQ2_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const int code = (block.qs[index / 128 * 32 + index % 32] >> (index % 128 / 32 * 2)) & 3;
    return static_cast<float>(code - 1) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const TQ2_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int k = 0; k < 8; ++k) {
      const std::uint8_t* qs = block.qs + k / 4 * 32;
      for (int l = 0; l < 32; ++l) {
        out[32 * k + l] = static_cast<float>(((qs[l] >> (k % 4 * 2)) & 3) - 1) * d;
      }
    }
  }
};
static_assert(sizeof(TQ2_0Block) == TQ2_0Block::kBytes && alignof(TQ2_0Block) == 1);

}  // namespace vindex::decode
