// Owns what the ggml codebook formats share: signs kept apart from magnitudes, and eight weights
// from one entry of a codebook. Packed entries: iq1_grid.hpp, iq2_grids.hpp, iq3_grids.hpp.
// Everything is branch-free work on the bits of a packed entry, which vectorises; a codebook of
// whole values would be a gather from 16 KB.
#pragma once

#include "float_formats.hpp"

namespace vindex::decode {

/// Magnitude of a two-bit code of IQ2_*: 8, 25, 43.
VINDEX_HD constexpr int iq2_value(std::uint32_t code) {
  return static_cast<int>(8U + 17U * code + (code >> 1U));
}
static_assert(iq2_value(0) == 8 && iq2_value(1) == 25 && iq2_value(2) == 43);

/// Magnitude of a three-bit code of IQ3_XXS: 4, 12, 20, 28, 36, 44, 52, 62.
VINDEX_HD constexpr int iq3_xxs_value(std::uint32_t code) {
  return static_cast<int>(4U + 8U * code + ((code + 1U) >> 3U << 1U));
}
static_assert(iq3_xxs_value(0) == 4 && iq3_xxs_value(6) == 52 && iq3_xxs_value(7) == 62);

/// Magnitude of a three-bit code of IQ3_S: 1, 3, ..., 15.
VINDEX_HD constexpr int iq3_s_value(std::uint32_t code) { return static_cast<int>(2U * code + 1U); }

/// 32 sign bits (bit 8l + j is weight 8l + j's, set where negative) of the four seven-bit indices
/// in the low 28 bits of `packed`: the eighth sign of each group makes the number of minus signs
/// even.
VINDEX_HD inline std::uint32_t even_signs(std::uint32_t packed) {
  const std::uint32_t seven = (packed & 0x7FU) | (packed << 1U & 0x7F00U) |
                              (packed << 2U & 0x7F0000U) | (packed << 3U & 0x7F000000U);
  // Folds each byte onto its lowest bit; what comes over from the byte above never reaches it.
  std::uint32_t parity = seven ^ (seven >> 4U);
  parity ^= parity >> 2U;
  parity ^= parity >> 1U;
  return seven | (parity & 0x01010101U) << 7U;
}

/// `weight`, negated where bit `index` of `signs` is set.
VINDEX_HD inline float with_sign(float weight, std::uint32_t signs, int index) {
  const std::uint32_t sign = (signs << static_cast<unsigned>(31 - index)) & 0x80000000U;
  return bits_as<float>(bits_as<std::uint32_t>(weight) ^ sign);
}

/// Code `index` of an entry with `Bits` bits per code.
template <int Bits>
VINDEX_HD inline std::uint32_t code_of_entry(std::uint32_t entry, int index) {
  return (entry >> static_cast<unsigned>(Bits * index)) & ((1U << Bits) - 1U);
}

/// Eight weights of an entry with `Bits` bits per code, each `Value(code) * scale` with its sign.
template <int Bits, int (*Value)(std::uint32_t)>
VINDEX_HD inline void decode_eight(std::uint32_t entry, std::uint32_t signs, float scale,
                                   float* __restrict__ out) {
  for (int j = 0; j < 8; ++j) {
    const int value = Value(code_of_entry<Bits>(entry, j));
    out[j] = with_sign(static_cast<float>(value) * scale, signs, j);
  }
}

}  // namespace vindex::decode
