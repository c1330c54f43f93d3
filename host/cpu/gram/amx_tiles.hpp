// Owns the tile instructions of Intel AMX as the arithmetic of tile_product.hpp. Written as
// assembly, since the compilers' intrinsics take tile numbers as text of the source, not as
// constants. Source: Intel SDM, LDTILECFG, TILELOADD, TDPBF16PS.
#pragma once

#include <cstdint>

#if defined(__x86_64__)

namespace vindex::cpu {

class AmxTiles {
 public:
  [[gnu::always_inline]] AmxTiles() {
    // Palette 1: eight tiles, here all of 16 rows of 64 bytes.
    alignas(64) struct {
      std::uint8_t palette = 1;
      std::uint8_t start_row = 0;
      std::uint8_t reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    static_assert(sizeof(config) == 64);
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  [[gnu::always_inline]] ~AmxTiles() { __asm__ volatile("tilerelease" ::: "memory"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  [[gnu::always_inline]] void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] void load(const void* from, std::int64_t stride_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride_bytes), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] void store(void* to, std::int64_t stride_bytes) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride_bytes), "i"(kTile)
                     : "memory");
  }
  /// Tile kSum += rows of kRows times pairs of rows of kColumns.
  template <int kSum, int kRows, int kColumns>
  [[gnu::always_inline]] void add_products() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRows),
                     "i"(kColumns));
  }
};

}  // namespace vindex::cpu

#endif
