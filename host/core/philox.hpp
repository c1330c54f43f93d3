// Owns the counter-based random generator Philox4x32-10, for host and device: the sign-flip null
// and synthetic models draw from it, so the same element gets the same number on every back end
// and in whatever order. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011.
#pragma once

#include "portable.hpp"

#include <cstdint>

namespace vindex {

/// 128 random bits; word 0 comes first.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// What is added to the two key words after each of the ten rounds.
inline constexpr std::uint32_t kPhiloxWeyl[2] = {0x9E3779B9, 0xBB67AE85};
inline constexpr int kPhiloxRounds = 10;

/// One round on the four words of a counter: for those who run many counters side by side.
VINDEX_HD inline void philox_round(std::uint32_t& word0, std::uint32_t& word1, std::uint32_t& word2,
                                   std::uint32_t& word3, std::uint32_t key0, std::uint32_t key1) {
  const std::uint64_t product0 = std::uint64_t{0xD2511F53} * word0;
  const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * word2;
  word0 = static_cast<std::uint32_t>(product1 >> 32U) ^ word1 ^ key0;
  word1 = static_cast<std::uint32_t>(product1);
  word2 = static_cast<std::uint32_t>(product0 >> 32U) ^ word3 ^ key1;
  word3 = static_cast<std::uint32_t>(product0);
}

/// The block of a 128-bit counter (word 0 is the low one) under a 64-bit key (low 32 bits are key
/// word 0).
VINDEX_HD inline PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint64_t key) {
  constexpr std::uint32_t kWeyl0 = kPhiloxWeyl[0];
  constexpr std::uint32_t kWeyl1 = kPhiloxWeyl[1];
  auto key0 = static_cast<std::uint32_t>(key);
  auto key1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    philox_round(counter.word[0], counter.word[1], counter.word[2], counter.word[3], key0, key1);
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

/// The block number `index` of the stream `key`; `draw`, the upper 64 bits of the counter, numbers
/// independent streams of one key.
VINDEX_HD inline PhiloxBlock philox_block(std::uint64_t key, std::uint64_t index,
                                          std::uint64_t draw = 0) {
  return philox4x32_10(
      {{static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32U),
        static_cast<std::uint32_t>(draw), static_cast<std::uint32_t>(draw >> 32U)}},
      key);
}

/// Bit `index` of the stream: bit index mod 128 of block index div 128, least significant bits
/// first.
VINDEX_HD inline bool philox_bit(std::uint64_t key, std::uint64_t index, std::uint64_t draw = 0) {
  const PhiloxBlock block = philox_block(key, index / 128, draw);
  return (block.word[index % 128 / 32] >> (index % 32) & 1U) != 0;
}

}  // namespace vindex
