// Owns the ggml block formats of 32 weights with one scale. d and m are binary16, little-endian;
// structs are the bytes on disk (all members are bytes, so any alignment will do). "Halves" order:
// 16 bytes give weights 0..15 from their low nibbles, then 16..31 from their high nibbles.
//   Q4_0  d@0 qs[16]@2            (nibble - 8) d
//   Q4_1  d@0 m@2 qs[16]@4        nibble d + m
//   Q5_0  d@0 qh[4]@2 qs[16]@6    ((nibble | bit j of qh << 4) - 16) d
//   Q5_1  d@0 m@2 qh[4]@4 qs[16]@8   (nibble | bit j of qh << 4) d + m
//   Q8_0  d@0 qs[32]@2            int8 d
// Every product is exact (11 bits times at most 8), so only the sums of Q4_1 and Q5_1 round, once.
// Source: ggml src/ggml-common.h, src/ggml-quants.c (dequantize_row_*).
#pragma once

#include "float_formats.hpp"

namespace vindex::decode {

/// Nibble `index` (0..31) of 16 bytes in halves order.
VINDEX_HD inline int nibble_of_halves(const std::uint8_t* bytes, int index) {
  return (bytes[index % 16] >> (index / 16 * 4)) & 15;
}

/// Bit `index` of a little-endian bit field, moved to bit 4.
VINDEX_HD inline int fifth_bit(std::uint32_t field, int index) {
  return static_cast<int>((field >> static_cast<unsigned>(index)) & 1U) << 4;
}

struct Q4_0Block {
  static constexpr ElementType kType = ElementType::kQ4_0;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  std::uint8_t d[2];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q4_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    return static_cast<float>(nibble_of_halves(block.qs, index) - 8) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q4_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>((block.qs[j] & 15) - 8) * d;
    }
    for (int j = 0; j < 16; ++j) {
      out[j + 16] = static_cast<float>((block.qs[j] >> 4) - 8) * d;
    }
  }
};
static_assert(sizeof(Q4_0Block) == Q4_0Block::kBytes && alignof(Q4_0Block) == 1);

struct Q4_1Block {
  static constexpr ElementType kType = ElementType::kQ4_1;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 20;
  std::uint8_t d[2];
  std::uint8_t m[2];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q4_1Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float m = half_to_float(load_as<std::uint16_t>(block.m));
    return static_cast<float>(nibble_of_halves(block.qs, index)) * d + m;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q4_1Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float m = half_to_float(load_as<std::uint16_t>(block.m));
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>(block.qs[j] & 15) * d + m;
    }
    for (int j = 0; j < 16; ++j) {
      out[j + 16] = static_cast<float>(block.qs[j] >> 4) * d + m;
    }
  }
};
static_assert(sizeof(Q4_1Block) == Q4_1Block::kBytes && alignof(Q4_1Block) == 1);

struct Q5_0Block {
  static constexpr ElementType kType = ElementType::kQ5_0;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 22;
  std::uint8_t d[2];
  std::uint8_t qh[4];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q5_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const auto high = load_as<std::uint32_t>(block.qh);
    return static_cast<float>((nibble_of_halves(block.qs, index) | fifth_bit(high, index)) - 16) *
           d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q5_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const auto high = load_as<std::uint32_t>(block.qh);
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>(((block.qs[j] & 15) | fifth_bit(high, j)) - 16) * d;
    }
    for (int j = 0; j < 16; ++j) {
      out[j + 16] = static_cast<float>(((block.qs[j] >> 4) | fifth_bit(high, j + 16)) - 16) * d;
    }
  }
};
static_assert(sizeof(Q5_0Block) == Q5_0Block::kBytes && alignof(Q5_0Block) == 1);

struct Q5_1Block {
  static constexpr ElementType kType = ElementType::kQ5_1;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 24;
  std::uint8_t d[2];
  std::uint8_t m[2];
  std::uint8_t qh[4];
  std::uint8_t qs[16];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q5_1Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float m = half_to_float(load_as<std::uint16_t>(block.m));
    const auto high = load_as<std::uint32_t>(block.qh);
    return static_cast<float>(nibble_of_halves(block.qs, index) | fifth_bit(high, index)) * d + m;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q5_1Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    const float m = half_to_float(load_as<std::uint16_t>(block.m));
    const auto high = load_as<std::uint32_t>(block.qh);
    for (int j = 0; j < 16; ++j) {
      out[j] = static_cast<float>((block.qs[j] & 15) | fifth_bit(high, j)) * d + m;
    }
    for (int j = 0; j < 16; ++j) {
      out[j + 16] = static_cast<float>((block.qs[j] >> 4) | fifth_bit(high, j + 16)) * d + m;
    }
  }
};
static_assert(sizeof(Q5_1Block) == Q5_1Block::kBytes && alignof(Q5_1Block) == 1);

struct Q8_0Block {
  static constexpr ElementType kType = ElementType::kQ8_0;
  static constexpr int kElements = 32;
  static constexpr int kBytes = 34;
  std::uint8_t d[2];
  std::uint8_t qs[32];

  VINDEX_HD static float decode_one(const std::uint8_t* bytes, int index) {
    const auto& block = *reinterpret_cast<const Q8_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    return static_cast<float>(static_cast<std::int8_t>(block.qs[index])) * d;
  }
  VINDEX_HD static void decode_all(const std::uint8_t* bytes, float* __restrict__ out) {
    const auto& block = *reinterpret_cast<const Q8_0Block*>(bytes);
    const float d = half_to_float(load_as<std::uint16_t>(block.d));
    for (int j = 0; j < 32; ++j) {
      out[j] = static_cast<float>(static_cast<std::int8_t>(block.qs[j])) * d;
    }
  }
};
static_assert(sizeof(Q8_0Block) == Q8_0Block::kBytes && alignof(Q8_0Block) == 1);

}  // namespace vindex::decode
