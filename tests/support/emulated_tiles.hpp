// Owns a matrix unit in plain C++: the tile instructions of Intel AMX as the arithmetic of
// cpu/gram/tile_product.hpp, for tests on processors without one. Source: Intel SDM, TDPBF16PS:
//
//   per element of the sums  even = odd = 0;  for each of the 16 pairs: even = fma(a0, b0, even),
//                            odd = fma(a1, b1, odd);  sum += even + odd
//
// all in float32, rounded to nearest even; subnormal operands are zero, subnormal results too.
#pragma once
#include "cpu/simd/matrix_unit.hpp"

#include <cstdint>

namespace vindex::test {

class EmulatedTiles {
 public:
  template <int kTile>
  void zero() {
    clear(kTile);
  }
  template <int kTile>
  void load(const void* from, std::int64_t stride_bytes) {
    load_tile(kTile, from, stride_bytes);
  }
  template <int kTile>
  void store(void* to, std::int64_t stride_bytes) {
    store_tile(kTile, to, stride_bytes);
  }
  template <int kSum, int kRows, int kColumns>
  void add_products() {
    multiply(kSum, kRows, kColumns);
  }

 private:
  void clear(int tile);
  void load_tile(int tile, const void* from, std::int64_t stride_bytes);
  void store_tile(int tile, void* to, std::int64_t stride_bytes) const;
  void multiply(int sum, int rows, int columns);

  alignas(64) std::uint32_t words_[8][16][16] = {};
};

/// The emulated unit as a whole.
cpu::TileProduct emulated_tile_product();

}  // namespace vindex::test
